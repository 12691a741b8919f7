"""Letters after an escape, as MySQL and PostgreSQL document them."""

from __future__ import annotations

import itertools

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.contracts.source import Source
from ddbload.rows.blocks import Block, Defect
from ddbload.rows.columns import ColumnReader, RowParser, from_octets
from ddbload.rows.dialect_grammar import dialect_boundaries

MYSQL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
"""LOAD DATA: NUL, backspace, newline (linefeed), carriage return, tab, and ASCII 26 (Control+Z). Of
other letters "the escape character is stripped and the following character is taken literally"."""
POSTGRES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""COPY: backspace, form feed, newline, carriage return, tab, vertical tab. "Any other backslashed
character that is not mentioned in the above table will be taken to represent itself"."""


def parser_of(program: str | None, **marks: str | None) -> RowParser:
    dialect = Dialect.of(Source.from_json({"path": "x", "dialect": program, **marks}, "source"))
    return RowParser(dialect, dialect_boundaries(dialect), ["\\N"])


def expected_fields(row: str, letters: dict[str, str]) -> list[str] | None:
    """Resolve a row without its line end, character by character; None if its end is escaped."""
    fields, raw, place = [""], [""], 0
    while place < len(row):
        character = row[place]
        if character == "\t":
            fields.append("")
            raw.append("")
        elif character == "\\":
            place += 1
            if place == len(row):
                return None
            raw[-1] += "\\" + row[place]
            fields[-1] += letters.get(row[place], row[place])
        else:
            raw[-1] += character
            fields[-1] += character
        place += 1
    return ["" if each == "\\N" else field for field, each in zip(fields, raw, strict=True)]


@pytest.mark.parametrize(
    ("program", "letters"), [("mysql", MYSQL), ("postgres", POSTGRES), (None, {})]
)
def test_letters_of_every_text_are_those_of_the_manual(
    program: str | None, letters: dict[str, str]
) -> None:
    marks = {} if program else {"delimiter": "\t", "quote": None, "escape": "\\"}
    parser = parser_of(program, **marks)
    for parts in itertools.product(("N", "n", "Z", "\\", "\t", "é"), repeat=5):
        row = "".join(parts)
        expected = expected_fields(row, letters)
        if expected is None:
            # The line end is escaped, too, and the next row's text goes on.
            continue
        block = Block(f"{row}\nend\n".encode(), Cursor(0, 1))
        assert parser.parse(block).records == [expected, ["end"]]
        assert parser.parse_rows(block) == [expected, ["end"]]
        assert parser.parse_row(row.encode()) == expected


@pytest.mark.parametrize("program", ["mysql", "postgres"])
def test_blocks_with_letters_are_parsed_like_single_rows(program: str) -> None:
    for quote in (None, '"'):
        parser = parser_of(program, quote=quote)
        parts_of_texts = ("N", "n", "\\", "\t", "\n", "4", *([quote] if quote else ()))
        for parts in itertools.product(parts_of_texts, repeat=5 if quote is None else 4):
            block = Block("".join([*parts, "\n"]).encode(), Cursor(0, 1))
            rows = parser.parse_rows(block)
            assert parser.parse(block).records == rows
            columns = ColumnReader(parser, 2).read(block)
            good = [row for row in rows if isinstance(row, list) and len(row) == 2]
            texts = zip(*columns.cells, strict=True)
            assert [[*map(from_octets, row)] for row in texts] == good


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (b"\\101\\x42", "AB"),
        (b"\\xc3\\xA9x", "éx"),
        (b"\\8\\xg", "8xg"),
        (b"\\1234", "S4"),
        (b"\\\\101", "\\101"),
        (b"\\116", "N"),
        (b"\\11\\12", "\t\n"),
        (b"\\134n", "\\n"),
        (b"\\n", "\n"),
    ],
)
def test_codes_of_bytes_make_characters(written: bytes, meant: str) -> None:
    parser = parser_of("postgres")
    for end in (b"\n", b""):
        block = Block(b"a\t" + written + end, Cursor(0, 1))
        assert parser.parse(block).records == [["a", meant]]
        assert parser.parse_rows(block) == [["a", meant]]


@pytest.mark.parametrize("written", [b"\\303", b"\xc3\\251", b"\xc3\\\xa9"])
def test_bytes_that_make_no_character_are_a_defect(written: bytes) -> None:
    parser = parser_of("postgres")
    (found,) = parser.parse(Block(b"a\t" + written + b"\n", Cursor(0, 1))).records
    assert isinstance(found, Defect)
    assert (found.cause, found.column) == ("bad_encoding", 1)


def test_another_escape_takes_the_same_letters() -> None:
    parser = parser_of("mysql", escape="§", delimiter=",")
    block = Block("a§nb,§,§§n\\n\n".encode(), Cursor(0, 1))
    assert parser.parse(block).records == [["a\nb", ",§n\\n"]]
