"""Writes the awkward files and their expected rows: ``python -m tests.golden.make``.

Nothing here parses. A case is a list of pieces in file order; a piece is a row, written down both
as its bytes and as its fields, or a gap: bytes that are no row. Offsets are sums of lengths, and a
line number is one more than the line ends before it, so this shares no reasoning with the oracle.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

MAX_BYTES = 4096


@dataclass(frozen=True)
class Piece:
    """Bytes of the file in order; ``fields`` is None where they are no row."""

    raw: bytes
    fields: list[str] | None
    defect: str | None = None


@dataclass(frozen=True)
class Case:
    """One file to write."""

    name: str
    why: str
    pieces: list[Piece] = field(default_factory=list)
    delimiter: str = ","
    quote: str | None = '"'

    @property
    def file_name(self) -> str:
        return self.name + (".tsv" if self.delimiter == "\t" else ".csv")

    @property
    def data(self) -> bytes:
        return b"".join(piece.raw for piece in self.pieces)

    def expected(self) -> str:
        """Return the text of the ``.json``: one row a line, so that a diff shows rows."""
        byte, line, rows = 0, 1, []
        for piece in self.pieces:
            end = byte + len(piece.raw)
            if piece.fields is not None:
                row = {
                    "line": line,
                    "byte": byte,
                    "end_byte": end,
                    "fields": piece.fields,
                    "defect": piece.defect,
                }
                rows.append("    " + json.dumps(row))
            byte, line = end, line + _line_ends(piece.raw)
        head = {"why": self.why, "delimiter": self.delimiter, "quote": self.quote}
        text = "".join(f"  {json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items())
        body = "[\n" + ",\n".join(rows) + "\n  ]" if rows else "[]"
        return "{\n" + text + f'  "rows": {body}\n' + "}\n"


def _line_ends(raw: bytes) -> int:
    # No piece ends between the CR and the LF of one CRLF, so counting piece by piece is exact.
    return raw.count(b"\r") + raw.count(b"\n") - raw.count(b"\r\n")


def row(raw: bytes | str, *fields: str, defect: str | None = None) -> Piece:
    """Return a row: its bytes with its line end, and its fields."""
    return Piece(raw.encode() if isinstance(raw, str) else raw, list(fields), defect)


def gap(raw: bytes) -> Piece:
    """Return bytes that are no row: a BOM or empty lines."""
    return Piece(raw, None)


BOM = gap(b"\xef\xbb\xbf")
HEAD = row("id,name\n", "id", "name")
LAST = row("9,last\n", "9", "last")
WIDE = [f"c{i}" for i in range(300)]

CASES = [
    # Line ends
    Case("lf", "nothing awkward: LF", [HEAD, row("1,a\n", "1", "a"), LAST]),
    Case(
        "crlf",
        "CRLF ends rows",
        [row("id,name\r\n", "id", "name"), row("1,a\r\n", "1", "a"), row("2,b\r\n", "2", "b")],
    ),
    Case(
        "lone_cr",
        "a lone CR ends a row",
        [row("id,name\r", "id", "name"), row("1,a\r", "1", "a"), row("2,b\r", "2", "b")],
    ),
    Case(
        "mixed_line_ends",
        "CR, LF and CRLF in one file",
        [
            HEAD,
            row("1,a\r\n", "1", "a"),
            row("2,b\r", "2", "b"),
            row("3,c\n", "3", "c"),
            row("4,d\r", "4", "d"),
            row("5,e\r\n", "5", "e"),
        ],
    ),
    Case(
        "cr_cr_lf",
        "CR CR LF: the CR ends the row, the CRLF an empty line (a CRLF file written as text twice)",
        [
            row("id,name\r", "id", "name"),
            gap(b"\r\n"),
            row("1,a\r", "1", "a"),
            gap(b"\r\n"),
            row("2,b\r", "2", "b"),
            gap(b"\r\n"),
        ],
    ),
    Case("no_final_line_end", "the last row has no line end", [HEAD, row("1,a", "1", "a")]),
    Case(
        "no_final_line_end_quoted",
        "the last row ends at a closing quote",
        [HEAD, row('1,"a"', "1", "a")],
    ),
    Case(
        "no_final_line_end_empty_field",
        "the last row ends at a delimiter",
        [HEAD, row("1,", "1", "")],
    ),
    Case("final_cr", "the file ends at a CR that no LF follows", [HEAD, row("1,a\r", "1", "a")]),
    Case(
        "empty_lines_between",
        "empty lines between rows are no rows",
        [HEAD, gap(b"\n"), row("1,a\n", "1", "a"), gap(b"\n\n\n"), LAST],
    ),
    Case("empty_lines_at_the_end", "empty lines after the last row", [HEAD, LAST, gap(b"\n\n\n")]),
    Case(
        "empty_lines_at_the_start", "empty lines before the header", [gap(b"\n\r\n\r"), HEAD, LAST]
    ),
    Case(
        "blank_lines",
        "lines of blanks and tabs have characters: they are rows of one field",
        [HEAD, row(" \n", " "), row("\t\n", "\t"), LAST],
    ),
    Case(
        "not_line_ends",
        "VT, FF, FS, GS, RS, U+0085, U+2028 and U+2029 end no row",
        [
            HEAD,
            row("1,a\x0bb\x0cc\n", "1", "a\x0bb\x0cc"),
            row("2,a\x1cb\x1dc\x1ed\n", "2", "a\x1cb\x1dc\x1ed"),
            row("3,a\u0085b\n", "3", "a\u0085b"),
            row("4,a\u2028b\u2029c\n", "4", "a\u2028b\u2029c"),
            row('5,"\u2028"\n', "5", "\u2028"),
        ],
    ),
    # Beginnings and whole files
    Case("bom", "a BOM before the header", [BOM, HEAD, LAST]),
    Case(
        "bom_header_only",
        "a BOM and a header without a line end",
        [BOM, row("id,name", "id", "name")],
    ),
    Case(
        "bom_quoted_header",
        "a BOM before a quote: the quote is still the field's first character",
        [BOM, row('"id","na\nme"\n', "id", "na\nme"), LAST],
    ),
    Case("bom_only", "three bytes and no row", [BOM]),
    Case(
        "bom_later",
        "U+FEFF anywhere but at byte 0 is text",
        [HEAD, row("\ufeff1,\ufeff\n", "\ufeff1", "\ufeff"), LAST],
    ),
    Case(
        "bom_twice",
        "the second BOM is text",
        [BOM, row("\ufeffid,name\n", "\ufeffid", "name"), LAST],
    ),
    Case("header_only", "a header and no rows", [HEAD]),
    Case("empty", "no bytes", []),
    Case("only_line_ends", "line ends and no row", [gap(b"\n\n\r\n\r\r\n")]),
    Case("one_byte", "one character", [row("a", "a")]),
    # Quotes
    Case(
        "quoted_lf",
        "LF inside quotes",
        [HEAD, row('1,"a\nb"\n', "1", "a\nb"), row('2,"\n\n"\n', "2", "\n\n"), LAST],
    ),
    Case(
        "quoted_crlf",
        "CRLF inside quotes stays CRLF and is one line",
        [HEAD, row('1,"a\r\nb"\r\n', "1", "a\r\nb"), row('"\r\n",2\r\n', "\r\n", "2"), LAST],
    ),
    Case(
        "quoted_cr",
        "a lone CR inside quotes, also just before the closing quote and an LF",
        [HEAD, row('1,"a\rb"\n', "1", "a\rb"), row('2,"a\r"\n', "2", "a\r"), LAST],
    ),
    Case(
        "quoted_rows",
        "whole rows inside quotes, one field: a cut at any of these line ends is wrong",
        [HEAD, row('1,"2,b\n3,c\n4,d\n"\n', "1", "2,b\n3,c\n4,d\n"), LAST],
    ),
    Case(
        "quoted_delimiters",
        "delimiters inside quotes",
        [HEAD, row('"1,2",",,"\n', "1,2", ",,"), LAST],
    ),
    Case(
        "doubled_quotes",
        "a doubled quote is one quote",
        [
            HEAD,
            row('1,"a""b"\n', "1", 'a"b'),
            row('2,"a"",""b"\n', "2", 'a","b'),
            row('3,"a""\n""b"\n', "3", 'a"\n"b'),
        ],
    ),
    Case(
        "doubled_quotes_at_the_edge",
        "doubled quotes first and last in their field, and last in the file",
        [
            HEAD,
            row('1,"""a"\n', "1", '"a'),
            row('2,"a"""\n', "2", 'a"'),
            row('"""3""","""a"""', '"3"', '"a"'),
        ],
    ),
    Case(
        "quotes_only",
        "fields of nothing but quotes",
        [
            HEAD,
            row('"",""\n', "", ""),
            row('"""",""""""\n', '"', '""'),
            row('""""""""\n', '"""'),
            row('"",', "", ""),
        ],
    ),
    Case(
        "bare_quotes",
        "quotes inside unquoted fields are text, though quote parity is lost",
        [
            HEAD,
            row('1,5" disk\n', "1", '5" disk'),
            row('2,3.5" disk, new\n', "2", '3.5" disk', " new"),
            row('3,a"\n', "3", 'a"'),
            row('4, "b"\n', "4", ' "b"'),
            row('5,a""b\n', "5", 'a""b'),
            LAST,
        ],
    ),
    Case(
        "text_after_closing_quote",
        "after a closing quote only a delimiter or a line end may follow",
        [
            HEAD,
            row('1,"a"b\n', "1", "ab", defect="bad_quote"),
            row('"2" ,c\n', "2 ", "c", defect="bad_quote"),
            row('3,"a"b"c"\n', "3", 'ab"c"', defect="bad_quote"),
            row('"4"x,"a\nb"\n', "4x", "a\nb", defect="bad_quote"),
            LAST,
        ],
    ),
    Case(
        "unterminated_quote",
        "the file ends inside quotes: everything from the quote on is one field",
        [
            HEAD,
            row("1,a\n", "1", "a"),
            row('2,"b\n3,c\n4,d\n', "2", "b\n3,c\n4,d\n", defect="unterminated_quote"),
        ],
    ),
    Case(
        "unterminated_quote_last_byte",
        "the file's last byte opens a quoted field",
        [HEAD, row('1,"', "1", "", defect="unterminated_quote")],
    ),
    Case(
        "unterminated_doubled_quote",
        "the file ends after a doubled quote, still inside the field",
        [HEAD, row('1,"a""', "1", 'a"', defect="unterminated_quote")],
    ),
    Case(
        "quote_none",
        "a file without quoting: quotes are text, line ends always end rows",
        [HEAD, row('1,"a\n', "1", '"a'), row('2,"b"\n', "2", '"b"'), row('"",""\n', '""', '""')],
        quote=None,
    ),
    Case(
        "single_quote",
        "the quote is an apostrophe; double quotes are text",
        [HEAD, row("1,'a''s,\nb'\n", "1", "a's,\nb"), row('2,"c\n', "2", '"c'), LAST],
        quote="'",
    ),
    # Characters and bytes
    Case(
        "multi_byte",
        "characters of two, three and four bytes: offsets are bytes",
        [
            row("né,名前\n", "né", "名前"),
            row("é,ß\n", "é", "ß"),
            row("€,漢字\n", "€", "漢字"),
            row("😀,🚲\n", "😀", "🚲"),
            row('"é""€\n😀",ok\n', 'é"€\n😀', "ok"),
        ],
    ),
    Case(
        "combining",
        "U+00E9 and e with U+0301 look alike and stay as they are",
        [HEAD, row("1,caf\u00e9\n", "1", "caf\u00e9"), row("2,cafe\u0301\n", "2", "cafe\u0301")],
    ),
    Case(
        "invalid_utf8",
        "bytes that are not UTF-8 spoil their row and no other",
        [
            HEAD,
            row(b"1,a\xffb\n", "1", "a\udcffb", defect="bad_encoding"),
            row("2,ok\n", "2", "ok"),
            row(b"3,caf\xe9\n", "3", "caf\udce9", defect="bad_encoding"),
            row(
                b"\xc0\xac,\xed\xa0\x80\n",
                "\udcc0\udcac",
                "\udced\udca0\udc80",
                defect="bad_encoding",
            ),
            row(b'5,"\xf0\x9f\x98\n"\n', "5", "\udcf0\udc9f\udc98\n", defect="bad_encoding"),
            LAST,
        ],
    ),
    Case(
        "truncated_character",
        "the file ends inside a character",
        [HEAD, row(b"1,\xe2\x82", "1", "\udce2\udc82", defect="bad_encoding")],
    ),
    Case(
        "nul",
        "NUL is a character",
        [
            HEAD,
            row("1,a\0b\n", "1", "a\0b"),
            row("\0,\0\0\n", "\0", "\0\0"),
            row('2,"\0"\n', "2", "\0"),
        ],
    ),
    Case(
        "spaces",
        "blanks around fields belong to them",
        [HEAD, row(" 1 , a \n", " 1 ", " a "), row('2," b "\n', "2", " b ")],
    ),
    # Delimiters
    Case(
        "tab",
        "tab separated: commas and blanks are text",
        [
            row("id\tname\n", "id", "name"),
            row("1\ta, b\n", "1", "a, b"),
            row('2\t"c\td"\n', "2", "c\td"),
        ],
        delimiter="\t",
    ),
    Case(
        "pipe",
        "the delimiter is |",
        [row("id|name\n", "id", "name"), row("1|a,b\n", "1", "a,b"), row('2|"c|d"\n', "2", "c|d")],
        delimiter="|",
    ),
    Case(
        "semicolon",
        "the delimiter is ; and the comma a decimal mark",
        [row("id;x\n", "id", "x"), row("1;0,5\n", "1", "0,5"), row('2;"1;5"\n', "2", "1;5")],
        delimiter=";",
    ),
    Case(
        "multi_byte_delimiter",
        "the delimiter § is C2 A7; ¢ (C2 A2) and ç (C3 A7) share a byte with it, as does a lone C2",
        [
            row("id§name\n", "id", "name"),
            row("¢§ç\n", "¢", "ç"),
            row('"§"§""\n', "§", ""),
            row(b"\xc2\xc2\xa7a\n", "\udcc2", "a", defect="bad_encoding"),
            row("§\n", "", ""),
        ],
        delimiter="§",
    ),
    # Columns
    Case(
        "single_column",
        "one column: an empty line is no row, an empty pair of quotes is one",
        [
            row("name\n", "name"),
            row("a\n", "a"),
            gap(b"\n"),
            row('""\n', ""),
            row("b\n", "b"),
            row('""', ""),
        ],
    ),
    Case(
        "field_counts",
        "rows with fewer and more fields than the header",
        [
            row("a,b,c\n", "a", "b", "c"),
            row("1,2,3\n", "1", "2", "3"),
            row("1,2\n", "1", "2"),
            row("1\n", "1"),
            row("1,2,3,4\n", "1", "2", "3", "4"),
            row("1,2,3,\n", "1", "2", "3", ""),
            row(",,\n", "", "", ""),
            row(",\n", "", ""),
        ],
    ),
    Case(
        "wide",
        "300 columns",
        [
            row(",".join(WIDE) + "\n", *WIDE),
            row("," * 299 + "\n", *[""] * 300),
            row(",".join(str(i % 10) for i in range(300)), *(str(i % 10) for i in range(300))),
        ],
    ),
    Case(
        "duplicate_columns",
        "a header that names a column twice, and one with no name",
        [row("id,id,\n", "id", "id", ""), row("1,2,3\n", "1", "2", "3")],
    ),
    Case(
        "long_row",
        "a row of 2,000 bytes between short ones",
        [HEAD, row("1," + "x" * 1997 + "\n", "1", "x" * 1997), LAST],
    ),
]


def files() -> dict[str, bytes]:
    """Return every file of the folder by name. Raises ValueError for one over 4 KB."""
    made: dict[str, bytes] = {}
    for case in CASES:
        if len(case.data) > MAX_BYTES:
            raise ValueError(f"{case.name}: {len(case.data)} bytes, over {MAX_BYTES}")
        made[case.file_name] = case.data
        made[f"{case.name}.json"] = case.expected().encode("ascii")
    return made


if __name__ == "__main__":
    for name, content in files().items():
        (Path(__file__).parent / name).write_bytes(content)
