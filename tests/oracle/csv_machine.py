r"""Oracle for delimited text: an RFC 4180 state machine that reads one character after the other.

It reads a whole file at once, and reading the code should be enough to check it. Its rules where
RFC 4180 leaves a choice or real files break it:

* The encoding is UTF-8. A BOM at byte 0 is skipped; elsewhere it is text.
* A row ends at CR, LF or CRLF outside quotes, in any mixture: ``\r\r\n`` is two line ends. The last
  row needs no line end. No other character ends a row (not VT, FF, U+0085, U+2028 or U+2029).
* An empty line (no character between two line ends) is skipped. ``""`` on a line is a row.
* A quote opens a quoted field only as the field's first character; elsewhere in an unquoted field
  it is text. Inside a quoted field a doubled quote is one quote, and all else is text.
* After the closing quote only a delimiter, a line end or the end of the file may follow. Anything
  else makes the row ``bad_quote``; the closing quote is dropped, and the rest of the field is read
  as unquoted text.
* The end of the file inside quotes makes the last row ``unterminated_quote``.
* A byte that is not UTF-8 makes its row ``bad_encoding``. The field contains it as Python's
  ``surrogateescape`` decodes it, so the structure around it is still found.
* A delimiter of several characters is found at its leftmost position: in ``|||`` the first two
  characters are ``||``.
* If the dialect has an escape, the character after it is text, inside quotes and outside. An
  escape before CRLF escapes the CR only, and the LF ends the line as usual. A doubled quote is
  still one quote. Outside quotes an escape that is the file's last character, or is followed only
  by a final CR or LF, makes the last row ``bad_escape``.
* If the dialect has comments, one starts where a row could start, and ends with its line. It is
  skipped.
* A row has one defect: the first structural one, or else ``bad_encoding``.
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
    """State of the machine."""

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
        # CRLF is one symbol: inside and outside quotes it ends one line, never two.
        elif text.startswith("\r\n", position):
            kind, symbol = "line end", "\r\n"
        else:
            symbol = text[position]
            kind = "line end" if symbol in LINE_ENDS else "text"
        meant = symbol[1:] if kind == "escape" else symbol
        position += len(symbol)
        byte += len(symbol.encode(encoding, "surrogateescape"))
        # If the CR of a CRLF is escaped, the LF after it ends the line.
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
        raise ValueError("marks: each needs at least one character and no line end")
    if any(mark is not None and (len(mark) > 1 or mark in delimiter) for mark in (quote, escape)):
        raise ValueError("quote, escape: each needs one character that is not in the delimiter")
    if len(set(marks)) < len(marks):
        raise ValueError("marks: two of them are equal")


def _line_at(text: str, position: int) -> str:
    """Return the text from ``position`` to the end of its line, line end included."""
    found = re.compile("[^\r\n]*(?:\r\n|[\r\n])?").match(text, position)
    assert found is not None
    return found.group()


def _row(line: int, byte: int, end_byte: int, fields: list[str], defect: str | None) -> Row:
    # surrogateescape maps only invalid bytes to U+DC80 to U+DCFF.
    if defect is None and any("\udc80" <= char <= "\udcff" for text in fields for char in text):
        defect = "bad_encoding"
    return Row(line, byte, end_byte, fields, defect)
