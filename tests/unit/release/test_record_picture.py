from __future__ import annotations

import pytest

from release.record_picture import Screen


def test_screen_shows_what_was_drawn_last():
    screen = Screen()
    for text in ("run a\r\n", "50 %\r\nmore", "\r\x1b[2K\x1b[1A\x1b[2K", "done\r\n"):
        screen.feed(text)
    assert screen.plain() == "run a\ndone\n"


def test_screen_keeps_colours():
    screen = Screen()
    screen.feed("\x1b[36m━\x1b[0m 5 \x1b[1;32m%")
    (line,) = screen.lines()
    assert line.plain == "━ 5 %"
    assert [(span.start, span.end, str(span.style)) for span in line.spans if span.style] == [
        (0, 1, "color(6)"),
        (4, 5, "bold color(2)"),
    ]


@pytest.mark.parametrize("cut", range(1, 9))
def test_screen_takes_a_control_in_pieces(cut: int):
    text = "ab\x1b[2K\rc"
    screen = Screen()
    screen.feed(text[:cut])
    screen.feed(text[cut:])
    assert screen.plain() == "c"


def test_screen_refuses_an_unknown_control():
    with pytest.raises(ValueError, match="not drawn"):
        Screen().feed("\x1b[5G")
