"""Tests of guessing a file's format and delimiter."""

from __future__ import annotations

import json

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.rows.sample_splits import SNIFFED_BYTES
from ddbload.rows.sniff import sniff


def guess(
    data: str | bytes, name: str = "-", *wanted: str, header: bool = True, whole: bool = True
) -> tuple[str, str | None]:
    start = data.encode() if isinstance(data, str) else data
    found = sniff(start, name=name, whole=whole, wanted=wanted, header=header)
    assert 0 <= found.sure <= 1
    assert found.why
    return found.format, found.delimiter


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_the_one_that_makes_columns(delimiter: str) -> None:
    text = "id;name;note\n1;a;x\n2;b;y\n".replace(";", delimiter)
    kind = "tsv" if delimiter == "\t" else "csv"
    assert guess(text) == (kind, delimiter)
    assert guess(text, "-", "id", "note") == (kind, delimiter)
    assert guess(text, header=False) == (kind, delimiter)


def test_colons_and_spaces_do_not_split_rows_of_one_column() -> None:
    assert guess("10:30\n10:31\n", header=False) == ("csv", ",")
    assert guess("John Smith\nJane Doe\n", header=False) == ("csv", ",")


def test_delimiter_with_the_key_columns_wins() -> None:
    text = "id,a;b\n1,2;3\n4,5;6\n"
    assert guess(text, "-", "id") == ("csv", ",")
    assert guess(text, "-", "b") == ("csv", ";")
    assert guess(text, "-", "id,a", "b") == ("csv", ";")
    # Though every row but one has two fields by the semicolon, and none by the comma.
    ragged = "id,x;y\n1;2\n3;4\n5;6\n"
    assert guess(ragged, "-", "id") == ("csv", ",")
    assert guess("id name\n1 a\n2 b\n", "-", "id") == ("csv", " ")
    assert guess("id:name\n1:a\n2:b\n", "-", "id", "name") == ("csv", ":")
    assert guess("id name\n1 a b\n2 b\n", "-", "id") == ("csv", ",")


@pytest.mark.parametrize("delimiter", [";", "^", "||", "\x1f", " "])
def test_rows_decide_when_no_delimiter_has_the_key_columns(delimiter: str) -> None:
    text = "name;year;n\nx;2001;1\ny;2002;2\nz;2003;3\n".replace(";", delimiter)
    assert guess(text, "-", "id") == guess(text) == ("csv", delimiter)
    assert guess("a;b\n", "-", "id") == guess("a;b\n")


TITLED = [
    ("Report,,\nid,name,n\n1,a,2\n2,b,3\n", 2),
    ("Report,,\nof May,,\n,,\nid,name,\na,b,\nc,d,\n", 4),
    ("Sum of all,\n,\nlabel,sum\na,1\n", 3),
    ("north,,south,\nx,y,x,y\n1,2,3,4\n5,6,7,8\n", 2),
    ("Staff,,,\n,,2013,\n,paid,other,\nUnit,staff,staff,total\na,1,2,3\nb,3,-,3\n", 4),
]


@pytest.mark.parametrize(("text", "line"), TITLED)
def test_title_padded_with_delimiters_is_doubted(text: str, line: int) -> None:
    doubt = sniff(text.encode(), name="x", whole=True).doubt
    assert doubt is not None
    assert f"--skip-lines {line - 1};" in doubt.describe(1)
    first = text.partition(",")[0]
    assert sniff(text.encode(), name="x", whole=True, wanted=[first]).doubt is None
    assert sniff(text.encode(), name="x", whole=True, header=False).doubt is None


@pytest.mark.parametrize(
    "text",
    [
        "x,y\nr1,1,2\nr2,3,4\nr3,5,6\n",
        "x,y\n1,2,\n3,4,\n",
        "# made by hand\n1,2,3\n4,5,6\n",
    ],
)
def test_data_below_a_header_of_another_length_are_not_called_a_header(text: str) -> None:
    doubt = sniff(text.encode(), name="x", whole=True).doubt
    assert doubt is not None
    told = doubt.describe(1)
    assert "The row at line 2 looks like data: say --skip-lines 1, and name the 3 columns" in told
    # What it says to do, works.
    rest = text.partition("\n")[2].encode()
    assert sniff(rest, name="x", whole=True, header=False).doubt is None
    assert sniff(rest, name="x", whole=True, header=False, count=3).doubt is None


def test_delimiter_can_be_doubled() -> None:
    assert guess("id||name||note\n1||a|b||\n2||||c\n", "-", "id") == ("csv", "||")
    assert guess("id||name\n1||a\n") == ("csv", "||")
    # Of a comma twice, a name is missing.
    assert guess("id,,v\n1,,2\n") == ("csv", ",")
    assert guess("id;;v\n1;;2\n") == ("csv", ";")
    # A column without a name is one, and to be told of.
    assert guess("id||name\n1|2|a\n") == ("csv", "|")
    assert guess("id||name|\n1||a|\n") == ("csv", "|")
    assert guess("id,,\n1,2,3\n") == ("csv", ",")


def test_known_marks_of_the_dialect_are_used() -> None:
    single = Dialect(quote="'")
    assert sniff(b"id;'a,b'\n1;'c,d'\n", name="", whole=True, dialect=single).delimiter == ";"
    # As a delimiter the quote does not come into question.
    semicolon = Dialect(quote=";")
    assert sniff(b";id;|;b;\n1|2\n", name="", whole=True, dialect=semicolon).delimiter == "|"


def test_ragged_file_keeps_its_delimiter() -> None:
    assert guess("id,name;alias\n1,Bob;Bobby\n2,Al;Ally,junk\n") == ("csv", ",")
    # More columns, and every row agrees: prices have decimal commas.
    assert guess("name;place, land;price\na;b;1,5\nc;d, e;2,5\n") == ("csv", ";")


def test_decimal_commas_are_no_delimiters() -> None:
    rows = "a,b;c;d;e\n" + "1,2;3;4;5\n" * 30
    assert guess(rows) == guess(rows + "1,2,3;4;5;6\n") == ("csv", ";")
    assert guess("Wert\n1,5\n-2,25\n") == ("csv", ";")
    assert guess("1,25;2,5\n3,5;4,125\n", header=False) == ("csv", ";")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv", ("csv", ",")),
        ("a.TSV", ("tsv", "\t")),
        ("s3://b/in/a.tab.gz", ("tsv", "\t")),
        ("a.psv.zst", ("csv", "|")),
        ("a.json", ("json", None)),
        ("a.jsonl.gz", ("json", None)),
        ("a.ndjson", ("json", None)),
        ("a.parquet", ("parquet", None)),
        ("a.b/csv", ("csv", ",")),
    ],
)
def test_name_decides_when_the_content_does_not(name: str, expected: tuple[str, str]) -> None:
    assert guess("id\n1\n", name) == expected
    assert guess("", name)[0] == expected[0] if expected[1] else "csv"


def test_content_wins_over_the_name() -> None:
    assert guess("id,b\n1,2\n", "a.tsv", "id") == ("csv", ",")
    assert guess("id\tb\n1\t2\n", "a.csv") == ("tsv", "\t")
    assert guess('{"id": "a, b"}\n', "a.csv") == ("json", None)
    assert guess("{'id': 'a', 'b': 1}\n{'id': 'c', 'b': 2}\n") == ("json", None)
    assert guess("id,b\n1,2\n", "a.json", "id") == ("csv", ",")
    assert guess(b"PAR1\x15\x04", "a.csv") == ("parquet", None)


ITEM = {"id": {"S": "a"}, "tags": {"SS": ["x"]}, "m": {"M": {"n": {"N": "1"}}}}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"id": 1}, "json"),
        ({}, "json"),
        ({"Item": "a"}, "json"),
        ({"Item": {"id": "a"}}, "json"),
        ({"Item": {"id": {"X": "a"}}}, "json"),
        ({"Item": ITEM, "id": 1}, "json"),
        ({"Item": ITEM}, "dynamodb-json"),
        (ITEM, "dynamodb-json"),
        ({"Item": {"S": "a"}}, "dynamodb-json"),
        ({"id": {"S": "a"}, "n": 1}, "json"),
        ({"id": {"S": ["a"]}}, "json"),
        ({"id": {"SS": "a"}}, "json"),
        ({"id": {"S": "a", "N": "1"}}, "json"),
        ({"Metadata": ITEM, "Keys": ITEM, "NewImage": None, "OldImage": ITEM}, "dynamodb-export"),
        ({"Metadata": {"W": {"N": "1"}}, "Keys": ITEM, "NewImage": ITEM}, "dynamodb-export"),
        ({"Metadata": {"W": {"N": "1"}}, "Keys": ITEM}, "dynamodb-export"),
        ({"Keys": ITEM}, "json"),
        ({"Keys": ITEM, "id": ITEM}, "json"),
        ({"Keys": ["id"], "NewImage": 1}, "json"),
    ],
)
def test_json_lines_are_recognized_by_their_values(value: object, kind: str) -> None:
    line = json.dumps(value)
    assert guess(f"{line}\n{line}\n") == (kind, None)
    assert guess(f"\n \n{line}", "x.csv") == (kind, None)


def test_rare_json_objects_are_cells() -> None:
    assert guess('a;b\n1;2\n{"c": 1}\n3;4\n') == ("csv", ";")


def test_json_is_recognized_despite_bad_lines() -> None:
    good, bad = '{"a": 1e999, "n": 12345678901234567890.10}', '{"a": 1,}'
    found = sniff(f"{bad}\n{good}\n{good}".encode(), name="x", whole=True)
    assert (found.format, found.sure) == ("json", 0.67)
    assert guess(bad, "a.jsonl") == ("json", None)
    assert guess("[1, 2]\n3\n", "a.jsonl", "id") == ("json", None)
    assert guess("[" * 100_000 + "\n", "a.jsonl", "id") == ("json", None)
    assert guess('{"a": ' + "9" * 5000 + "}\n") == ("json", None)


def test_json_over_several_lines_is_named() -> None:
    for text in ('[\n  {"id": 1},\n  {"id": 2}\n]\n', '{\n  "id": 1\n}\n', '[{"id": 1},\n'):
        found = sniff(text.encode(), name="a.json", whole=True, wanted=["id"])
        assert found.format == "json"
        assert found.sure < 1


def test_row_longer_than_the_sample_is_read_whole() -> None:
    long = "x" * (2 * SNIFFED_BYTES)
    assert guess(f'{{"a": "{long}', whole=False) == ("json", None)
    assert guess(f"id;{long}\n1;2\n3;4", "-", "id", whole=False) == ("csv", ";")
    assert guess(f"id;{long}", "-", "id", whole=False) == ("csv", ";")
    # What is cut off is no row then, and is not counted.
    found = sniff(f"id;{long}\n1;2\n3".encode(), name="", whole=False, wanted=["id"])
    assert found.sure == 1


def test_delimiter_stays_when_rows_do_not_fit_the_header() -> None:
    assert guess("a;b\n1;2\n3;4;5\n6;7\n") == ("csv", ";")
    # A title with a semicolon in it is one.
    assert guess("note; remark\nx\ny\nz\n") == ("csv", ",")


def test_reason_contains_no_row_data() -> None:
    found = sniff(b"id;secret\n1;hidden\n", name="x", whole=True, wanted=["id"])
    assert (
        found.why == "under it alone the header has 'id'; 2 of 2 rows at its start have 2 columns"
    )
    assert found.sure == 1.0


@pytest.mark.parametrize(
    ("text", "why", "line", "comment"),
    [
        (
            "Report\na;b\n1;2\n",
            "has 1 field; split at ';', 2 of the 2 rows after it have 2",
            2,
            None,
        ),
        ("# x\n\na\tb\n1\t2\n", "has 1 field; split at tabs, 2 of the 2", 3, "#"),
        ("x,y\na,b,c\n1,2,3\n4,5,6\n7,8\n", "has 2 fields; split at ',', 3 of the 4", 2, None),
        ("//x, y\na,b\n1,2\n3,4\n", "begins as a comment does, and the row", 2, "//"),
        (";x, y\na,b\n1,2\n3,4\n", "begins as a comment does, and the row", 2, ";"),
    ],
)
def test_first_row_is_doubted_when_the_others_contradict_it(
    text: str, why: str, line: int, comment: str | None
) -> None:
    doubt = sniff(text.encode(), name="x", whole=True).doubt
    assert doubt is not None
    assert (doubt.why[: len(why)], doubt.line, doubt.comment) == (why, line, comment)
    assert f"--skip-lines {line + 3}" in doubt.describe(5)
    # Nothing is doubted where it was said how many columns there are, or where a key is.
    assert sniff(text.encode(), name="x", whole=True, count=1).doubt is None
    key = text.splitlines()[0].partition(",")[0]
    assert sniff(text.encode(), name="x", whole=True, wanted=[key]).doubt is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a:b\n1:2\n3:4\n", "has 1 field; split at ':', it and all 2 rows after it have 2"),
        (
            "a b c\nx 2 y\nz 5 t\nv w s\n",
            "has 1 field; split at spaces, it and all 3 rows after it have 3",
        ),
    ],
)
def test_first_row_is_doubted_when_colons_or_spaces_split_every_row_alike(
    text: str, why: str
) -> None:
    found = sniff(text.encode(), name="x", whole=True)
    assert found.delimiter == ","
    assert found.doubt is not None
    assert found.doubt.describe(1).startswith(
        f"{why}. Say which delimiter the file has (--delimiter)"
    )
    assert sniff(text.encode(), name="x", whole=True, wanted=[text[0]]).doubt is None


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("sep=;\nid;name\n1;a\n2;b\n", "--skip-lines 1 --delimiter ';'"),
        ('"sep=\t"\r\nid\tname\r\n1\ta\r\n', "--skip-lines 1 --delimiter tab"),
        ("'id','name'\n'1','a'\n'2','b'\n", '--quote "\'"'),
        ("id,name\n1,'Doe, J'\n2,'Roe, J'\n", '--quote "\'"'),
    ],
)
def test_doubt_names_the_option_that_reads_the_file(text: str, option: str) -> None:
    doubt = sniff(text.encode(), name="x.csv", whole=True).doubt
    assert doubt is not None
    assert option in doubt.describe(1)
