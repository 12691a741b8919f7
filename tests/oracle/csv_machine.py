r"""The oracle for delimited text: a character-level RFC 4180 state machine.

It reads a whole file at once, one symbol at a time, and is meant to be checked by reading it. The
rules, where RFC 4180 leaves them open or a real file breaks it:

* UTF-8. A BOM at byte 0 is skipped; anywhere else it is text.
* A row ends at CR, LF or CRLF outside quotes, mixed at will: ``\r\r\n`` is two line ends. The
  last row needs none. No other character ends a row (not VT, FF, U+0085, U+2028 or U+2029).
* An empty line (no character between two line ends) is no row. ``""`` on a line is a row.
* A quote opens a quoted field only as the field's first character; elsewhere in an unquoted field
  it is text. Inside a quoted field a doubled quote is one quote and all else is text.
* After the closing quote only a delimiter, a line end or the end of the file may follow. Anything
  else makes the row ``bad_quote``; the closing quote itself is dropped, and the rest of the field
  is read as unquoted text.
* The end of the file inside quotes makes the last row ``unterminated_quote``.
* A byte that is not UTF-8 makes its row ``bad_encoding``; it stands in its field as Python's
  ``surrogateescape`` spells it, so the structure around it is still found.
* A delimiter of several characters is one where its first character comes first: in ``|||`` the
  first two are ``||``.
* Where there is an escape, the character after it is text, inside quotes and outside, whatever it
  is: of CRLF that is the CR, and the LF after it is a line end as any other. A doubled quote is a
  quote all the same. Outside quotes an escape that is the last character of the file, or is
  followed by nothing but a CR or LF, makes the last row ``bad_escape``.
* Where there are comments, one begins where a row may begin and ends with its line; it is no row.
* A row has one defect: the first structural one, and ``bad_encoding`` only where there is none.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

LINE_ENDS = ("\r\n", "\r", "\n")
BOM = b"\xef\xbb\xbf"


class Row(NamedTuple):
    """One row as the oracle sees it.

    ``line`` is the 1-based physical line the row starts on (each CR, LF and CRLF ends one, inside
    quotes too), ``byte`` the absolute offset of the row's first byte, ``end_byte`` the offset just
    after its line end (or the file's length), ``defect`` one of ``bad_quote``,
    ``unterminated_quote``, ``bad_encoding`` or None.
    """

    line: int
    byte: int
    end_byte: int
    fields: list[str]
    defect: str | None


class State(Enum):
    """Where the machine stands."""

    ROW_START = auto()
    FIELD_START = auto()
    UNQUOTED = auto()
    QUOTED = auto()
    QUOTE_IN_QUOTED = auto()


def read_rows(
    data: bytes,
    delimiter: str = ",",
    quote: str | None = '"',
    escape: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8",
) -> list[Row]:
    """Return every row of ``data``, the bytes of a whole file.

    ``quote`` and ``escape`` are one character, or None where the file has none; ``delimiter`` and
    ``comment`` (or None) are one or more. Raises ValueError where they cannot be told apart from
    one another or a line end.
    """
    _check_marks(delimiter, quote, escape, comment)
    byte = len(BOM) if data.startswith(BOM) else 0
    text = data[byte:].decode(encoding, "surrogateescape")
    line = 1
    rows: list[Row] = []

    state = State.ROW_START
    row_line, row_byte = line, byte
    fields: list[str] = []
    field = ""
    defect: str | None = None

    position = 0
    while position < len(text):
        if comment is not None and state is State.ROW_START and text.startswith(comment, position):
            kind, symbol = "comment", _line_at(text, position)
        elif state is not State.QUOTED and text.startswith(delimiter, position):
            kind, symbol = "delimiter", delimiter
        elif text[position] == quote:
            kind, symbol = "quote", quote
        elif text[position] == escape:
            kind, symbol = "escape", text[position : position + 2]
        # CRLF is taken as one symbol: in and out of quotes it ends one line, never two.
        elif text.startswith("\r\n", position):
            kind, symbol = "line end", "\r\n"
        else:
            symbol = text[position]
            kind = "line end" if symbol in LINE_ENDS else "text"
        meant = symbol[1:] if kind == "escape" else symbol
        position += len(symbol)
        byte += len(symbol.encode(encoding, "surrogateescape"))
        # Of an escaped CR and the LF after it, the LF ends the line.
        if symbol.endswith("\n") or (
            symbol.endswith("\r") and text[position : position + 1] != "\n"
        ):
            line += 1
        row_ended = False

        match state:
            case _ if kind == "comment":
                row_line, row_byte = line, byte

            case State.ROW_START | State.FIELD_START:
                if kind == "line end":
                    if state is State.ROW_START:
                        row_line, row_byte = line, byte
                    else:
                        row_ended = True
                elif kind == "delimiter":
                    fields.append("")
                    state = State.FIELD_START
                elif kind == "quote":
                    state = State.QUOTED
                else:
                    field = meant
                    state = State.UNQUOTED

            case State.UNQUOTED:
                if kind == "line end":
                    row_ended = True
                elif kind == "delimiter":
                    fields.append(field)
                    field = ""
                    state = State.FIELD_START
                else:
                    field += meant

            case State.QUOTED:
                if kind == "quote":
                    state = State.QUOTE_IN_QUOTED
                else:
                    field += meant

            case State.QUOTE_IN_QUOTED:
                if kind == "quote":
                    field += symbol
                    state = State.QUOTED
                elif kind == "line end":
                    row_ended = True
                elif kind == "delimiter":
                    fields.append(field)
                    field = ""
                    state = State.FIELD_START
                else:
                    defect = defect or "bad_quote"
                    field += meant
                    state = State.UNQUOTED

        if position == len(text) and kind == "escape" and meant in ("", *LINE_ENDS):
            defect = defect or ("bad_escape" if state is State.UNQUOTED else None)
        if row_ended:
            rows.append(_row(row_line, row_byte, byte, [*fields, field], defect))
            state = State.ROW_START
            row_line, row_byte = line, byte
            fields, field, defect = [], "", None

    if state is State.QUOTED:
        defect = defect or "unterminated_quote"
    if state is not State.ROW_START:
        rows.append(_row(row_line, row_byte, byte, [*fields, field], defect))
    return rows


def _check_marks(
    delimiter: str, quote: str | None, escape: str | None, comment: str | None
) -> None:
    marks = [mark for mark in (delimiter, quote, escape, comment) if mark is not None]
    if "" in marks or any(end in mark for end in LINE_ENDS for mark in marks):
        raise ValueError("marks: one character or more, and no line ends")
    if any(mark is not None and (len(mark) > 1 or mark in delimiter) for mark in (quote, escape)):
        raise ValueError("quote, escape: one character, which is not the delimiter's")
    if len(set(marks)) < len(marks):
        raise ValueError("marks: no one character for two things")


def _line_at(text: str, position: int) -> str:
    """What stands from there to the end of the line, line end included."""
    found = re.compile("[^\r\n]*(?:\r\n|[\r\n])?").match(text, position)
    assert found is not None
    return found.group()


def _row(line: int, byte: int, end_byte: int, fields: list[str], defect: str | None) -> Row:
    # surrogateescape gives U+DC80 to U+DCFF for a byte that is not UTF-8, and never otherwise.
    if defect is None and any("\udc80" <= char <= "\udcff" for text in fields for char in text):
        defect = "bad_encoding"
    return Row(line, byte, end_byte, fields, defect)
