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


def read_rows(data: bytes, delimiter: str = ",", quote: str | None = '"') -> list[Row]:
    """Return every row of ``data``, the bytes of a whole file.

    ``delimiter`` is one character; ``quote`` is one character, or None where the file has no
    quoting. Raises ValueError where the two cannot be told apart from each other or a line end.
    """
    if len(delimiter) != 1 or delimiter in LINE_ENDS:
        raise ValueError("delimiter: one character, not a line end")
    if quote is not None and (len(quote) != 1 or quote in LINE_ENDS or quote == delimiter):
        raise ValueError("quote: one character, not a line end, not the delimiter")

    byte = len(BOM) if data.startswith(BOM) else 0
    line = 1
    rows: list[Row] = []

    state = State.ROW_START
    row_line, row_byte = line, byte
    fields: list[str] = []
    field = ""
    defect: str | None = None

    # CRLF is taken as one symbol: in and out of quotes it ends one line, never two.
    for symbol in re.findall("\r\n|.", data[byte:].decode("utf-8", "surrogateescape"), re.DOTALL):
        byte += len(symbol.encode("utf-8", "surrogateescape"))
        if symbol in LINE_ENDS:
            line += 1
        row_ended = False

        match state:
            case State.ROW_START | State.FIELD_START:
                if symbol in LINE_ENDS:
                    if state is State.ROW_START:
                        row_line, row_byte = line, byte
                    else:
                        row_ended = True
                elif symbol == delimiter:
                    fields.append("")
                    state = State.FIELD_START
                elif symbol == quote:
                    state = State.QUOTED
                else:
                    field = symbol
                    state = State.UNQUOTED

            case State.UNQUOTED:
                if symbol in LINE_ENDS:
                    row_ended = True
                elif symbol == delimiter:
                    fields.append(field)
                    field = ""
                    state = State.FIELD_START
                else:
                    field += symbol

            case State.QUOTED:
                if symbol == quote:
                    state = State.QUOTE_IN_QUOTED
                else:
                    field += symbol

            case State.QUOTE_IN_QUOTED:
                if symbol == quote:
                    field += symbol
                    state = State.QUOTED
                elif symbol in LINE_ENDS:
                    row_ended = True
                elif symbol == delimiter:
                    fields.append(field)
                    field = ""
                    state = State.FIELD_START
                else:
                    defect = defect or "bad_quote"
                    field += symbol
                    state = State.UNQUOTED

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


def _row(line: int, byte: int, end_byte: int, fields: list[str], defect: str | None) -> Row:
    # surrogateescape gives U+DC80 to U+DCFF for a byte that is not UTF-8, and never otherwise.
    if defect is None and any("\udc80" <= char <= "\udcff" for text in fields for char in text):
        defect = "bad_encoding"
    return Row(line, byte, end_byte, fields, defect)
