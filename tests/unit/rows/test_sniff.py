"""Tests of guessing a file's format and delimiter."""

from __future__ import annotations

import json
import shlex

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.rows.columns import RowParser
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


READINGS = [
    # What is clear is used: comments, titles, Excel's line, quotes, delimiters at the end of rows.
    ("# x\n\na\tb\n1\t2\n", True, "--delimiter tab --skip-lines 2"),
    ("a;b\n# x\n1;2\n3;4\n", True, "--delimiter ; --comment #"),
    ("Made by hand\n# x\na;b\n1;2\n# y\n3;4\n", True, "--delimiter ; --comment # --skip-lines 2"),
    ("Report\nid,name,n\n1,a,2\n2,b,3\n", True, "--delimiter , --skip-lines 1"),
    ("Report,,\nid,name,n\n1,a,2\n2,b,3\n", True, "--delimiter , --skip-lines 1"),
    ("sep=;\nid;name\n1;a\n2;b\n", True, "--delimiter ; --skip-lines 1"),
    ('"sep=\t"\r\nid\tname\r\n1\ta\r\n', True, "--delimiter tab --skip-lines 1"),
    ("'id','name'\n'1','a'\n'2','b'\n", True, "--delimiter , --quote '"),
    ("id,name\n1,'Doe, J'\n2,'Roe, J'\n", True, "--delimiter , --quote '"),
    ('a\tb\n1\t"x\n2\ty"\n3\t"z\n', True, "--delimiter tab --quote none"),
    ('a,b\n1,"x \\"y\\", z"\n2,"u"\n3,w\n', True, "--delimiter , --escape \\"),
    ("x,y\n1,2,\n3,4,\n", True, "--delimiter ,"),
    ("0||test\n", True, "--delimiter ||"),
    ("region,2019,2020\nx,1,2\ny,3,4\n", True, "--delimiter ,"),
    (",0,1,2\n0,1.5,2.5,3\n1,2,3,4\n", True, "--delimiter ,"),
    ("# a\ncolor,n\n#fff,1\n#000,2\nred,3\n", True, "--delimiter , --skip-lines 1"),
    ("# made by hand\nfloat\t\n84.62\t\n", True, "--delimiter tab --skip-lines 1"),
    # Only with the usual quotes, numbers are alone in a column.
    ('id,a\n1,"Main St 5\nBerlin, Germany"\n2,b\n', True, "--delimiter ,"),
    ('id\ta\n1\t"Main St 5\nBerlin\tGermany"\n2\tb\n', True, "--delimiter tab"),
    *(
        (f'id\ta\n{rows}61\t"x\ny\tz"\n', True, "--delimiter tab")
        for rows in ["".join(f"{n}\tplain\n" for n in range(60))]
    ),
    # Marks of several characters, of which some are in cells.
    ("id|~|name\n1|~|a\n2|~|b\n3|~|c|d\n4|~|b|~|c\n", True, "--delimiter |~|"),
    ("id^~^name\n1^~^a\n2^~^b^c\n3\n", True, "--delimiter ^~^"),
    ("id||name\n1||a|b\n2||c\n3\n", True, "--delimiter ||"),
    ("key^~^note\nA-7^~^x\nA-9^~^y\n", True, "--delimiter ^~^"),
    ("key^~^note\nk0^~^x\nk1^~^a^b\n", True, "--delimiter ^~^"),
    ("share\tnote\n48,98\t\n2,25\t\n", True, "--delimiter tab"),
    # What is not clear is refused with the best reading.
    ('"x","y"\n"r1",1,2\n"r2",3,4\n', False, "--delimiter , --skip-lines 1 --columns row,x,y"),
    ("1\n2\n3\n", False, "--delimiter , --no-header"),
    ("Report\na;b\n1;2\n", False, "--delimiter ; --skip-lines 1"),
    ("# made by hand\n1,2,3\n4,5,6\n", False, "--delimiter , --skip-lines 1 --no-header"),
    ("//x, y\na,b\n1,2\n3,4\n", False, "--delimiter , --skip-lines 1"),
    (";x, y\na,b\n1,2\n3,4\n", False, "--delimiter , --skip-lines 1"),
    ("x,y\na,b,c\n1,2,3\n4,5,6\n7,8\n", False, "--delimiter , --skip-lines 1"),
    ("Report,,\nof May,,\n,,\nid,name,\na,b,\nc,d,\n", False, "--delimiter , --skip-lines 3"),
    ("Sum of all,\n,\nlabel,sum\na,1\n", False, "--delimiter , --skip-lines 2"),
    (
        *("north,,south,\nx,y,x,y\n1,2,3,4\n5,6,7,8\n", False),
        "--delimiter , --skip-lines 2 --columns north x,north y,south x,south y",
    ),
    (
        *("Staff,,,\n,,2013,\n,paid,other,\nUnit,staff,staff,total\na,1,2,3\nb,3,-,3\n", False),
        "--delimiter , --skip-lines 4 --columns Unit,paid staff,2013 other staff,2013 other total",
    ),
    (
        *("n,v,w\n-,mm,kg\na,1,2\nb,3,4\nc,5,6\n", False),
        "--delimiter , --skip-lines 2 --columns n,v,w",
    ),
    ("1,2\n3,4\n", False, "--delimiter , --no-header"),
    ("a b c\nx 2 y\nz 5 t\nv w s\n", False, "--delimiter space"),
    ("id  name  n\n1   a     2\n2   bb    3\n", False, "--delimiter space"),
    # Two readings that are as good: none is the best.
    ("a:b\n1:2\n3:4\n", None, "--delimiter :"),
    ("a b\n1 2\n3 4\n", None, "--delimiter space"),
    ("tags\nred;blue\ngreen;black\nwhite;grey\n", None, "--delimiter ; --skip-lines 1"),
    ("at\n52.1;13.2\n48.1;11.5\n", None, "--delimiter ; --skip-lines 1 --no-header"),
    ("a,b;c,d\n1,2;3,4\n5,6;7,8\n", None, "--delimiter ,"),
    # Cells may be missing at the end of rows; of aligned rows, some are longer than others.
    ("a,b,c,d\n1,2\n3,4\n5,6\n", None, "--delimiter , --skip-lines 1 --columns a,b"),
    ("id  name  n\n1   a     2\n2   bb    3  x\n", None, "--delimiter space"),
    # A row without any name is no header.
    ('Report:;x\n\n""\n;"";;\n;2019;2020;\na;1;2;\nb;3;4;\n', None, "--delimiter ; --skip-lines 3"),
    # Cells without a name may be row names, or the last ones; some codes are as some names.
    ("x,y\nr1,1,2\nr2,3,4\nr3,5,6\n", None, "--delimiter , --skip-lines 1 --columns row,x,y"),
    ("id,t\n1,3,5\n2,4,5\n", None, "--delimiter , --skip-lines 1 --columns row,id,t"),
    ("i,n,c\nu5,B,NY,\nu9,A,LA,x\n", None, "--delimiter , --skip-lines 1 --columns row,i,n,c"),
    ("A-1;x\nB-22;y\nC-3;z\n", None, "--delimiter ; --no-header"),
    ("name,city,zone1\nBob,NY,A1\nAl,LA,B2\nEve,SF,C3\n", None, "--delimiter , --no-header"),
    ("sku,name,address2\ns1,Bob,apt5\ns2,Al,apt7\n", None, "--delimiter , --no-header"),
    ("zone1,line1\nA1,apt5\nB2,apt7\n", None, "--delimiter , --no-header"),
    ('n,a,b\n1,\'q\',5\n2,"open,5\n3,x,"hi"o\n4,x,5\n', None, "--delimiter , --quote '"),
    # Quotes over the end of a line may be text, if without them all rows fit, too.
    ('a,b\n1,"x\n2,y\n3,z"\n4,u\n', None, "--delimiter , --quote none"),
    ("key,b\nk0,'q'\nk1,\"l1\nl2,x\"\nk2,z\n", None, "--delimiter , --quote none"),
    # In a few rows, text above numbers is no proof of units, and single quotes may be text.
    ("n,v,w\n-,mm,kg\na,1,2\nb,3,4\n", None, "--delimiter , --skip-lines 2 --columns n,v,w"),
    (
        "On 2021-01-02\na;b;c\n1;'q';x\n2;'q';y\n3;z;'v'\n4;u;v\n",
        None,
        "--delimiter ; --quote ' --skip-lines 1",
    ),
    ("Report\n\nname\nDoe, J\nRoe, K\nPoe, E\nLow, M\n", None, "--delimiter , --skip-lines 3"),
    ("tags\nx\ny\na|b|c\na|b\na|a\n", None, "--delimiter | --skip-lines 4"),
    ("# Add one comment :-)\n1;3#5;7\n6;7", None, "--delimiter ; --skip-lines 1"),
    ('a,b\n"x,\ny;",1\n"z z,\nu,\nv;",2\n', None, "--delimiter , --quote none"),
]


@pytest.mark.parametrize(("text", "clear", "options"), READINGS)
def test_clear_readings_are_used_and_others_are_shown(
    text: str, clear: bool | None, options: str
) -> None:
    found = sniff(text.encode(), name="x.csv", whole=True)
    if clear:
        assert found.doubt is None
        assert found.reading is not None
        assert " ".join(found.reading.options()) == options
        return
    assert found.doubt is not None
    best, other = found.doubt.to_json(0)
    assert (" ".join(best["options"]), best["best"]) == (options, clear is False)
    assert not other["best"]
    assert other["options"] != best["options"]
    assert (clear is False) <= len(best["rows"]) <= 3
    # The lines that were skipped before the sample count.
    words = shlex.split(found.doubt.readings[0].describe(3).partition(" (")[0])
    if "--skip-lines" in best["options"]:
        skipped = int(best["options"][best["options"].index("--skip-lines") + 1])
        assert words[words.index("--skip-lines") + 1] == str(skipped + 3)


def test_cells_with_line_ends_and_delimiters_fit_usual_quotes_better_than_others() -> None:
    rows = "".join(f'"{n}","\\ C:\\a","it\'s"\n' for n in range(9))
    text = f'"id","a","b"\n{rows}"9","1,2\n3","x \\"\n"10","\'q, r","y"\n'
    found = sniff(text.encode(), name="x.csv", whole=True)
    assert found.doubt is None
    assert found.reading is not None
    assert (found.reading.quote, found.reading.escape) == ('"', None)


def test_rows_that_end_with_a_delimiter_are_no_comments() -> None:
    text = "# x y z\ncolor|text|n\n" + "".join(f'#ff{n}|"5"" y"|{n}|\n' for n in range(9))
    found = sniff(text.encode(), name="x.csv", whole=True)
    readings = [found.reading] if found.doubt is None else found.doubt.readings
    assert not any(reading and reading.comment for reading in readings)


def test_second_reading_of_codes_above_codes_has_a_header_and_the_same_quotes() -> None:
    text = "'zone1','a, x'\n'A1','b, x'\n'B2','c, x'\n"
    doubt = sniff(text.encode(), name="x.csv", whole=True).doubt
    assert doubt is not None
    assert [(each.quote, each.header) for each in doubt.readings] == [("'", False), ("'", True)]


@pytest.mark.parametrize("size", [100, 2_000, 9_000])
def test_comments_between_rows_are_left_out_only_if_all_lines_were_seen(size: int) -> None:
    """A row that begins with the mark may come after the rows that are compared."""
    rows = "".join(f"{n},pad\n" for n in range(size))
    for end, whole in (("", True), ("", False), (f"#{size},lost\n", True)):
        text = f"# made by tool\nid,a\n1,x\n# part 2\n{rows}{end}"
        found = sniff(text.encode(), name="x.csv", whole=whole)
        assert found.reading is not None
        if whole and not end:
            assert found.reading.comment == "#"
            assert found.doubt is None
        else:
            assert found.doubt is not None or found.reading.comment is None
            assert found.doubt is None or not found.doubt.has_best
            shown = [] if found.doubt is None else found.doubt.readings
            assert not shown or shown[0].comment == "#"


def test_second_reading_has_no_quotes_in_its_names() -> None:
    text = '"a"|"n"\n"x"|-0.6|\n"y"|-0.1|\n"z"|-0.9|\n'
    doubt = sniff(text.encode(), name="x.csv", whole=True).doubt
    assert doubt is not None
    assert [reading.width for reading in doubt.readings] == [3, 2]
    assert all(reading.quote == '"' for reading in doubt.readings)


def test_first_row_below_a_shorter_header_is_not_shown_as_names() -> None:
    doubt = sniff(b"x,y\n1,secret,2\n2,3,4\n3,5,6\n", name="x.csv", whole=True).doubt
    assert doubt is not None
    assert "secret" not in str(doubt.error("at line 1", 0))
    assert not any("secret" in (each["names"] or ()) for each in doubt.to_json(0))


@pytest.mark.parametrize("text", [text for text, clear, _ in READINGS if clear is False])
def test_best_reading_has_the_keys_of_the_first_row(text: str) -> None:
    key = text.splitlines()[0].partition(",")[0].strip('"')
    if "," in text:
        doubt = sniff(text.encode(), name="x", whole=True, wanted=[key]).doubt
        assert doubt is None or key in (doubt.readings[0].names or ())
    assert sniff(text.encode(), name="x", whole=True, count=1).doubt is None


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


@pytest.mark.parametrize("row", ["{0};b", "{0};b;", "a,b", "{0};b,c;", "a, b;"])
def test_known_number_of_columns_decides(row: str) -> None:
    """Delimiters at the end of rows do not count."""
    start = "".join(row.format(n) + "\n" for n in range(5)).encode()
    count = 1 if row == "a, b;" else 2
    found = sniff(start, name="-", whole=True, header=False, count=count)
    assert found.delimiter == ("," if row == "a,b" else ";")


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


@pytest.fixture
def parsed(monkeypatch) -> list[int]:
    """Sizes of the blocks that are split."""
    sizes: list[int] = []
    parse = RowParser.parse

    def count(self, block):
        sizes.append(len(block.data))
        return parse(self, block)

    monkeypatch.setattr(RowParser, "parse", count)
    return sizes


def test_quoted_text_with_line_ends_is_split_by_each_delimiter_only(parsed):
    rows = "".join(f'{n},"it\'s one,\n\ntwo, # three",{n}\n' for n in range(300))
    assert guess(f"id,note,n\n{rows}") == ("csv", ",")
    assert len(parsed) == 4


def test_readings_of_a_file_of_marks_take_bounded_work(parsed):
    """Of each dialect that is tried, only the first rows are split, and only once."""
    data = b"# a\n" + b"'a','b\\\"','c';'d'|\"x\"\ty: z\n" * 3000
    sniff(data, name="x", whole=False)
    # 192 dialects: 4 quotings, 6 comment marks and 8 delimiters.
    assert len(parsed) <= 4 * 6 * 8 + 8
    assert sum(parsed) <= 64 * 1024 * 20 + 16 * 1024 * len(parsed)
