"""The oracle against rows and offsets counted by hand."""

from __future__ import annotations

import pytest

from tests.oracle.csv_machine import Row, read_rows


def test_quote_is_text_without_quoting() -> None:
    assert read_rows(b'"a\nb",""\n', quote=None) == [
        Row(1, 0, 3, ['"a'], None),
        Row(2, 3, 9, ['b"', '""'], None),
    ]


def test_delimiter_may_have_two_bytes() -> None:
    # A0 to A7 after C2 are different characters; only C2 A7 is the delimiter.
    assert read_rows('a§¢§"b§"§\n'.encode(), delimiter="§") == [
        Row(1, 0, 15, ["a", "¢", "b§", ""], None)
    ]


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
