"""Generate files with every kind of good and bad row; a seed gives the same file."""

from __future__ import annotations

import random

COLUMNS = ("id", "text", "größe", "last")
_PIECES = ("a", "5", " ", "é", "漢", "🙂", "\u2028", "\x00", "\t", ";", "'", "word")
_AWKWARD = (*_PIECES, ",", '"', "\n", "\r", "\r\n", '",\n"')
_ENDS = ("\n", "\n", "\n", "\r\n", "\r", "\n\n")


def awkward(seed: int, rows: int) -> bytes:
    """Generate a header and rows with unique keys, of which one in ten is bad."""
    rng = random.Random(seed)
    data = ",".join(COLUMNS).encode() + b"\r\n"
    for number in range(rows):
        data += _row(rng, f"{number}-{_text(rng, _PIECES, 2)}".replace("\x00", ""))
        data += rng.choice(_ENDS).encode()
    return data + b'end,"no line end",,'


def _row(rng: random.Random, key: str) -> bytes:
    cells = [key, *(_cell(rng) for _ in COLUMNS[1:])]
    place = rng.randrange(1, len(cells))
    match rng.randrange(50):
        case 0:
            cells[0] = ""
        case 1:
            del cells[place:]
        case 2:
            cells.append(_cell(rng))
        case 3:
            cells[place] = '"quoted" and more'
        case 4:
            cells[place] = "not UTF-8: \udcff"
    return ",".join(cells).encode("utf-8", "surrogateescape")


def _cell(rng: random.Random) -> str:
    match rng.randrange(3):
        case 0:
            return ""
        case 1:
            return '"' + _text(rng, _AWKWARD, 8).replace('"', '""') + '"'
        case _:
            # A quote within an unquoted field is text.
            return "w" + _text(rng, _PIECES, 5) + rng.choice(("", "", "", '"'))


def _text(rng: random.Random, pieces: tuple[str, ...], most: int) -> str:
    return "".join(rng.choice(pieces) for _ in range(rng.randint(0, most)))
