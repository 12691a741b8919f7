"""The measure of docstrings' prose, and its two limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.prose import FIRST_WORDS, FOLDERS, ROOT, TURNS, Docstring, docstrings, main, measure

HERE = Path("a.py")
MODULE = '''\
"""The module."""

LIMIT: int = 3
"""The limit."""
a = b = 1
"""Both."""
"""Not a docstring: no assignment stands before it."""
f"{a}"


class Table:
    """The class."""

    name: str
    """The field."""

    def __init__(self):
        """The method."""
        self.rows = 0
        """The attribute."""
        print("no docstring")
        """No docstring either."""

    async def load(self):
        """The coroutine."""


if LIMIT:
    x = 1
    """In a branch."""
else:
    x = 2
    """In the other branch."""
'''


def made(*texts: str) -> list[Docstring]:
    return [Docstring(HERE, line, text) for line, text in enumerate(texts, 1)]


def folder(root: Path, **files: str) -> Path:
    (root / "code").mkdir()
    for name, text in files.items():
        (root / "code" / f"{name}.py").write_text(text, "utf-8")
    return root


def lines_with(bad: str, count: int, total: int) -> str:
    """A module of `total` docstrings, `count` of which are `bad`."""
    texts = [bad] * count + ["Count the rows."] * (total - count)
    return "".join(f'a = 1\n"""{text}"""\n' for text in texts)


def test_docstrings_are_found_with_their_lines():
    found = {each.line: each.text for each in docstrings(HERE, MODULE)}
    assert found == {
        1: "The module.",
        4: "The limit.",
        6: "Both.",
        12: "The class.",
        15: "The field.",
        18: "The method.",
        20: "The attribute.",
        25: "The coroutine.",
        30: "In a branch.",
        33: "In the other branch.",
    }


def test_an_empty_module_has_none():
    assert list(docstrings(HERE, "")) == []


@pytest.mark.parametrize("word", FIRST_WORDS)
def test_a_first_word_counts_in_any_case(word):
    for text in (
        word.capitalize() + " rows are.",
        f"\n    {word} rows are",
        f"`{word.upper()}`'s.",
    ):
        figure, _ = measure(made(text, "Count the rows."))
        assert [each.line for each, _ in figure.offenders] == [1]
        assert figure.percent == 50


@pytest.mark.parametrize(
    "text",
    ["Whatever it takes.", "Assign rows.", "Office.", "Rows of what is read.", "1 as 2", "", "_"],
)
def test_other_first_words_do_not_count(text):
    figure, _ = measure(made(text))
    assert figure.offenders == []


@pytest.mark.parametrize("turn", TURNS)
def test_a_turn_counts_anywhere_and_over_a_line_break(turn):
    broken = turn.replace(" ", "\n        ")
    for text in (f"Rows, {turn}.", f"Count.\n\n    Rows {broken} here.", turn.upper()):
        _, figure = measure(made("Count the rows.", text))
        assert [each.line for each, _ in figure.offenders] == [2]


@pytest.mark.parametrize("text", ["This nonet.", "Its owner.", "Also manyfold.", "untold offers"])
def test_a_turn_does_not_count_within_words(text):
    _, figure = measure(made(text))
    assert figure.offenders == []


def test_a_docstring_with_two_turns_counts_once():
    _, figure = measure(made("So many have its own.", "Count the rows."))
    assert [fault for _, fault in figure.offenders] == ['"So many", "its own"']
    assert figure.percent == 50


@pytest.mark.parametrize(
    ("bad", "count", "code"),
    [
        ("What there is.", 3, 0),
        ("What there is.", 4, 1),
        ("Rows that it has on its own.", 7, 0),
        ("Rows that it has on its own.", 8, 1),
    ],
)
def test_it_fails_when_a_share_reaches_its_limit(tmp_path, capsys, bad, count, code):
    root = folder(tmp_path, a=lines_with(bad, count, 200))
    assert main(["code"], root) == code
    out = capsys.readouterr().out
    assert f"{count / 2:.1f} % ({count} of 200 docstrings" in out
    assert ("too many" in out) == bool(code)


def test_it_prints_each_offender_and_both_figures(tmp_path, capsys):
    first = '"""Count the rows."""\n\n\ndef size():\n    """How large it is."""\n'
    root = folder(tmp_path, b=first, a='"""An index that is none."""\n')
    assert main(["code"], root) == 1
    assert capsys.readouterr().out.splitlines() == [
        'code/b.py:5: begins with "How"',
        'code/a.py:1: "is none"',
        "Begin with a clause: 33.3 % (1 of 3 docstrings; the limit is under 2 %): too many",
        "Carry a turn: 33.3 % (1 of 3 docstrings; the limit is under 4 %): too many",
    ]


def test_it_passes_when_the_prose_is_plain(tmp_path, capsys):
    root = folder(tmp_path, a='"""Count the rows."""\n')
    assert main(["code"], root) == 0
    assert capsys.readouterr().out.count("good") == 2


def test_it_fails_when_there_is_nothing_to_measure(tmp_path, capsys):
    assert main(["code"], folder(tmp_path, a="x = 1\n")) == 1
    assert "nothing to measure" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match="no folder missing"):
        main(["missing"], tmp_path)


def test_it_reads_the_code_that_is_here():
    for name in FOLDERS:
        assert (ROOT / name / "__init__.py").is_file()
