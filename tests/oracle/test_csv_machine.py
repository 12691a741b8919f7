"""The oracle against rows and offsets counted by hand."""

from __future__ import annotations

import pytest

from tests.oracle.csv_machine import Row, read_rows

CASES: list[tuple[str, bytes, list[Row]]] = [
    ("empty file", b"", []),
    ("only line ends", b"\n\r\r\n\n", []),
    ("only a BOM", b"\xef\xbb\xbf", []),
    ("one row, no line end", b"a,b", [Row(1, 0, 3, ["a", "b"], None)]),
    ("one row, LF", b"a,b\n", [Row(1, 0, 4, ["a", "b"], None)]),
    (
        "the three line ends",
        b"a\nb\rc\r\nd",
        [
            Row(1, 0, 2, ["a"], None),
            Row(2, 2, 4, ["b"], None),
            Row(3, 4, 7, ["c"], None),
            Row(4, 7, 8, ["d"], None),
        ],
    ),
    (
        "CR CRLF is a row end and an empty line",
        b"a\r\r\nb",
        [Row(1, 0, 2, ["a"], None), Row(3, 4, 5, ["b"], None)],
    ),
    (
        "LF CR is a row end and an empty line",
        b"a\n\rb",
        [Row(1, 0, 2, ["a"], None), Row(3, 3, 4, ["b"], None)],
    ),
    (
        "empty lines before, between and after",
        b"\n\na\n\n\nb\n\n",
        [Row(3, 2, 4, ["a"], None), Row(6, 6, 8, ["b"], None)],
    ),
    ("a line of one blank is a row", b" \n", [Row(1, 0, 2, [" "], None)]),
    ("a BOM is not in the row", b"\xef\xbb\xbfa\n", [Row(1, 3, 5, ["a"], None)]),
    ("a BOM, then an empty line", b"\xef\xbb\xbf\na", [Row(2, 4, 5, ["a"], None)]),
    ("a BOM, then a quote", b'\xef\xbb\xbf"a"', [Row(1, 3, 6, ["a"], None)]),
    (
        "two BOMs: the second is text",
        b"\xef\xbb\xbf\xef\xbb\xbfa",
        [Row(1, 3, 7, ["\ufeffa"], None)],
    ),
    ("lone delimiter", b",\n", [Row(1, 0, 2, ["", ""], None)]),
    ("lone delimiter at the end", b",", [Row(1, 0, 1, ["", ""], None)]),
    ("empty last field", b"a,\nb", [Row(1, 0, 3, ["a", ""], None), Row(2, 3, 4, ["b"], None)]),
    ("quoted empty field is a row", b'""\n', [Row(1, 0, 3, [""], None)]),
    ("quoted empty field at the end", b'""', [Row(1, 0, 2, [""], None)]),
    ("one quote", b'"""",b\n', [Row(1, 0, 7, ['"', "b"], None)]),
    ("doubled at both edges", b'"""a"""\n', [Row(1, 0, 8, ['"a"'], None)]),
    ("delimiter in quotes", b'"a,b",c\n', [Row(1, 0, 8, ["a,b", "c"], None)]),
    (
        "line ends in quotes count lines",
        b'"a\nb\rc\r\nd",e\nf',
        [Row(1, 0, 13, ["a\nb\rc\r\nd", "e"], None), Row(5, 13, 14, ["f"], None)],
    ),
    (
        "CR last in quotes, then LF outside",
        b'"a\r"\nb',
        [Row(1, 0, 5, ["a\r"], None), Row(3, 5, 6, ["b"], None)],
    ),
    ("bare quote in an unquoted field", b'5" disk,x\n', [Row(1, 0, 10, ['5" disk', "x"], None)]),
    ("quote after a blank is text", b' "a"\n', [Row(1, 0, 5, [' "a"'], None)]),
    (
        "quote last in an unquoted field",
        b'a"\nb',
        [Row(1, 0, 3, ['a"'], None), Row(2, 3, 4, ["b"], None)],
    ),
    (
        "text after the closing quote",
        b'"a"b"c",d\ne\n',
        [Row(1, 0, 10, ['ab"c"', "d"], "bad_quote"), Row(2, 10, 12, ["e"], None)],
    ),
    ("blank after the closing quote", b'"a" ,b', [Row(1, 0, 6, ["a ", "b"], "bad_quote")]),
    (
        "a good quoted field after a bad one",
        b'"a"b,"c\nd"\n',
        [Row(1, 0, 11, ["ab", "c\nd"], "bad_quote")],
    ),
    (
        "unterminated",
        b'a\n"b,c\nd',
        [Row(1, 0, 2, ["a"], None), Row(2, 2, 8, ["b,c\nd"], "unterminated_quote")],
    ),
    ("unterminated: a quote and nothing", b'"', [Row(1, 0, 1, [""], "unterminated_quote")]),
    ("unterminated: three quotes", b'"""', [Row(1, 0, 3, ['"'], "unterminated_quote")]),
    ("unterminated before a final LF", b'"a\n', [Row(1, 0, 3, ["a\n"], "unterminated_quote")]),
    ("the first structural defect stands", b'"a"b,"c', [Row(1, 0, 7, ["ab", "c"], "bad_quote")]),
    (
        "multi-byte text: offsets are bytes",
        "é,€,😀\nb".encode(),
        [Row(1, 0, 12, ["é", "€", "😀"], None), Row(2, 12, 13, ["b"], None)],
    ),
    (
        "other separators end no row",
        "a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029b\n".encode(),
        [Row(1, 0, 16, ["a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029b"], None)],
    ),
    ("NUL is text", b"a\0b,\0\n", [Row(1, 0, 6, ["a\0b", "\0"], None)]),
    (
        "not UTF-8",
        b"a\xffb,c\nd\n",
        [Row(1, 0, 6, ["a\udcffb", "c"], "bad_encoding"), Row(2, 6, 8, ["d"], None)],
    ),
    (
        "a character cut short by a delimiter",
        b"\xe2\x82,b\n",
        [Row(1, 0, 5, ["\udce2\udc82", "b"], "bad_encoding")],
    ),
    (
        "a character cut short by a line end",
        b"\xf0\x9f\x98\na\n",
        [Row(1, 0, 4, ["\udcf0\udc9f\udc98"], "bad_encoding"), Row(2, 4, 6, ["a"], None)],
    ),
    (
        "a surrogate in UTF-8 is not UTF-8",
        b"\xed\xb3\xbf\n",
        [Row(1, 0, 4, ["\udced\udcb3\udcbf"], "bad_encoding")],
    ),
    (
        "an overlong comma is no comma",
        b"a\xc0\xacb",
        [Row(1, 0, 4, ["a\udcc0\udcacb"], "bad_encoding")],
    ),
    ("not UTF-8 inside quotes", b'"\xff\n"\n', [Row(1, 0, 5, ["\udcff\n"], "bad_encoding")]),
    ("structure before encoding", b'"\xff"a\n', [Row(1, 0, 5, ["\udcffa"], "bad_quote")]),
]


@pytest.mark.parametrize(("data", "rows"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_rows_with_comma_and_quote(data: bytes, rows: list[Row]) -> None:
    assert read_rows(data) == rows


def test_quote_is_text_without_quoting() -> None:
    assert read_rows(b'"a\nb",""\n', quote=None) == [
        Row(1, 0, 3, ['"a'], None),
        Row(2, 3, 9, ['b"', '""'], None),
    ]


def test_quote_can_be_another_character() -> None:
    assert read_rows(b"'a,''b',\"c\n", quote="'") == [Row(1, 0, 11, ["a,'b", '"c'], None)]


def test_delimiter_may_have_two_bytes() -> None:
    # A0 to A7 after C2 are different characters; only C2 A7 is the delimiter.
    assert read_rows('a§¢§"b§"§\n'.encode(), delimiter="§") == [
        Row(1, 0, 15, ["a", "¢", "b§", ""], None)
    ]


def test_half_a_delimiter_is_bad_encoding() -> None:
    assert read_rows(b"a\xc2\xc2\xa7b\n", delimiter="§") == [
        Row(1, 0, 6, ["a\udcc2", "b"], "bad_encoding")
    ]


def test_commas_and_blanks_are_text_with_a_tab_delimiter() -> None:
    assert read_rows(b"a, b\t c \n", delimiter="\t") == [Row(1, 0, 9, ["a, b", " c "], None)]


@pytest.mark.parametrize(
    "marks",
    [
        *(("", '"'), ("\n", '"'), ("\r\n", '"'), ("a\r", '"'), (",", ""), (",", "\r"), (",", ",")),
        *((",", "''"), ('",', '"'), (",", '"', '"'), (",", '"', ","), ("|\\", '"', "\\")),
        *((",", '"', "\\\\"), (",", '"', None, ""), (",", '"', None, "#\n"), (",", '"', None, ",")),
        *((",", '"', None, '"'), (",", '"', "#", "#")),
    ],
)
def test_ambiguous_dialect_is_refused(marks: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"marks: |quote, escape: "):
        read_rows(b"a", *marks)


def test_long_delimiter_is_found_leftmost() -> None:
    assert read_rows(b'a||b|||c|"d"||"e||"|||"\n|', delimiter="||") == [
        Row(1, 0, 24, ["a", "b", '|c|"d"', "e||", '|"'], None),
        Row(2, 24, 25, ["|"], None),
    ]


def test_overlapping_delimiter_starts_after_a_quoted_field() -> None:
    assert read_rows(b'"a|"||b\n', delimiter="||") == [Row(1, 0, 8, ["a|", "b"], None)]
    assert read_rows(b"xabababay\n", delimiter="aba") == [Row(1, 0, 10, ["x", "b", "y"], None)]


def _escaped(data: bytes, quote: str | None = '"') -> list[Row]:
    return read_rows(data, quote=quote, escape="\\")


def test_escaped_character_is_text() -> None:
    assert _escaped(rb"a\,b,\"c,\\d,e\f" + b"\n") == [
        Row(1, 0, 17, ["a,b", '"c', "\\d", "ef"], None)
    ]
    assert _escaped(rb'"a\"b\\",""""' + b"\n") == [Row(1, 0, 14, ['a"b\\', '"'], None)]
    assert _escaped(rb'"a\,"' + b"\n", None) == [Row(1, 0, 6, ['"a,"'], None)]


def test_escaped_line_end_does_not_end_the_row() -> None:
    assert _escaped(b"a\\\nb\n\\\rc\rd") == [
        Row(1, 0, 5, ["a\nb"], None),
        Row(3, 5, 9, ["\rc"], None),
        Row(5, 9, 10, ["d"], None),
    ]
    assert _escaped(b'"a\\\r\nb"\n') == [Row(1, 0, 8, ["a\r\nb"], None)]


def test_lf_of_an_escaped_crlf_ends_the_row() -> None:
    assert _escaped(b"a\\\r\nb") == [Row(1, 0, 4, ["a\r"], None), Row(2, 4, 5, ["b"], None)]


@pytest.mark.parametrize(
    ("data", "field", "defect"),
    [
        (b"a\\", "a", "bad_escape"),
        (b"a\\\n", "a\n", "bad_escape"),
        (b"a\\\\", "a\\", None),
        (b"a\\\nb", "a\nb", None),
        (b'"a\\', "a", "unterminated_quote"),
        (b'"a\\"', 'a"', "unterminated_quote"),
        (b'"a"\\', "a", "bad_quote"),
    ],
)
def test_escape_at_the_end_of_the_file_is_a_defect(
    data: bytes, field: str, defect: str | None
) -> None:
    assert _escaped(data) == [Row(1, 0, len(data), [field], defect)]


def test_comment_line_is_skipped_where_a_row_may_start() -> None:
    data = b'#"a\n\r\nb,#\n"\n#c"\n #d\n#\r#e\\'
    assert read_rows(data, escape="\\", comment="#") == [
        Row(3, 6, 10, ["b", "#"], None),
        Row(4, 10, 16, ["\n#c"], None),
        Row(6, 16, 20, [" #d"], None),
    ]


def test_comment_may_start_with_other_marks() -> None:
    assert read_rows(b'""#"\n,,x\n,\n', comment='""#') == [
        Row(2, 5, 9, ["", "", "x"], None),
        Row(3, 9, 11, ["", ""], None),
    ]
    assert read_rows(b",,x\n,\n", comment=",,") == [Row(2, 4, 6, ["", ""], None)]


def test_rows_can_have_another_encoding() -> None:
    assert read_rows(b"\xe9\x80b\n\x81,\n", delimiter="€", encoding="cp1252") == [
        Row(1, 0, 4, ["é", "b"], None),
        Row(2, 4, 7, ["\udc81,"], "bad_encoding"),
    ]


def test_rows_and_gaps_cover_the_file() -> None:
    data = b'a,b\r\n\r\n"c\n",d\n\re\r'
    rows = read_rows(data)
    covered = b"".join(data[row.byte : row.end_byte] for row in rows)
    gaps = b"".join(
        data[left:right]
        for left, right in zip(
            [0, *(r.end_byte for r in rows)], [*(r.byte for r in rows), len(data)], strict=True
        )
    )
    assert covered == b'a,b\r\n"c\n",d\ne\r'
    assert gaps == b"\r\n\r"
