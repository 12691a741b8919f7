"""Files that were written to mislead: each is read right, rejected by rows, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.convert.convert import prepare_conversion
from ddbload.ledger.ledger import temporary_ledger
from tests.unit.steps.guessed import GUESSED, Outcome, converted
from tests.unit.steps.world import TABLE, World

DELIMITERS = (",", ";", "\t", "|")


# Lines before the header.

TABLES = {
    2: "id;name\n1;a\n2;b\n3;c\n",
    3: "id;name;price\n1;a;2\n2;b;3\n3;c;4\n",
}
PREAMBLES = [
    "# exported\n",
    "# exported\n# by hand\n",
    "#\n",
    "// exported 2024-01-01 10:00\n",
    "-- exported\n",
    "Sales report\n",
    "Sales report\n\n",
    "Sales report\nof 2024\n\n",
    '"Sales report"\n',
]


@pytest.mark.parametrize("columns", TABLES)
@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("name", ["data", "data.tsv"])
def test_lines_before_header_are_skipped_or_refused_with_advice(
    tmp_path: Path, name: str, delimiter: str, columns: int
) -> None:
    table = TABLES[columns].replace(";", delimiter)
    expected = converted(tmp_path, table, name)
    assert (len(expected.items), len(expected.names)) == (3, 1)
    for preamble in PREAMBLES:
        found = converted(tmp_path, preamble + table, name)
        if found.error is None:
            assert found == expected, (preamble, delimiter)
            continue
        skip = preamble.count("\n")
        assert preamble == "#\n", (preamble, delimiter, found)
        assert "line 1, byte 0" in str(found.error)
        assert f"--skip-lines {skip}" in str(found.error)
        assert converted(tmp_path, preamble + table, name, skip_lines=skip) == expected


# What is as it should be.


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("id\n1\n2\n", ["id"], [["1"], ["2"]]),
        ("id\n", [], []),
        ("", [], []),
        ("\n\n", [], []),
        ("id;name\n", [], []),
        ("id;name\n1;a\n", ["id", "name"], [["1", "a"]]),
        ("\ufeffid;name\n1;a\n", ["id", "name"], [["1", "a"]]),
        ("id;name\r1;a\r2;b\r", ["id", "name"], [["1", "a"], ["2", "b"]]),
        ("id;price\n1;1,5\n2;2,5\n", ["id", "price"], [["1", "1,5"], ["2", "2,5"]]),
        (
            "id;p;q\n1;1,5;2,5\n2;2,5;7\n",
            ["id", "p", "q"],
            [["1", "1,5", "2,5"], ["2", "2,5", "7"]],
        ),
        ("id|b\n1|2\n", ["id", "b"], [["1", "2"]]),
        ('"id";"b"\n1;2\n', ["id", "b"], [["1", "2"]]),
        ('id;b\n"1";"2"\n', ["id", "b"], [["1", "2"]]),
        ("id ; b\n1 ; 2\n", ["id ", " b"], [["1 ", " 2"]]),
        ('note\n"a, b"\n"c; d"\n', ["note"], [["a, b"], ["c; d"]]),
        # Prose: not every row, and not always as many.
        ("note\nso; it is\nwell\nfine\n", ["note"], [["so; it is"], ["well"], ["fine"]]),
        ("note\na; b; c\nd\ne; f\n", ["note"], [["a; b; c"], ["d"], ["e; f"]]),
        ("note\nsee a; b\n", ["note"], [["see a; b"]]),
        (
            "tags\nred;blue\ngreen\nblack;white\n",
            ["tags"],
            [["red;blue"], ["green"], ["black;white"]],
        ),
        ("note; remark\nx\ny\n", ["note; remark"], [["x"], ["y"]]),
        ("#\n1\n2\n", ["#"], [["1"], ["2"]]),
    ],
)
@pytest.mark.parametrize("name", ["data", "data.csv"])
def test_valid_files_are_read(
    tmp_path: Path, text: str, names: list[str], rows: list[list[str]], name: str
) -> None:
    found = converted(tmp_path, text, name)
    assert (found.error, list(found.rejects)) == (None, [])
    assert (found.rows, found.names) == (rows, {tuple(names)} if rows else set())


# JSON that is not lines of objects.

PLAIN = [{"id": "1", "n": 1, "tags": ["a", {}], "m": {}}, {"id": "2", "n": 2, "note": 'x "[{'}]
TYPED = [{"id": {"S": "1"}, "m": {"M": {}}}, {"id": {"S": "2"}}]
SCAN = {"Items": TYPED, "Count": 2, "ScannedCount": 2, "ConsumedCapacity": None}
PAGE = {"Items": PLAIN, "Count": 2, "ScannedCount": 9, "LastEvaluatedKey": {"id": "2"}}


def is_short(text: str) -> bool:
    return len(text) < 10_000


def lines(values: Sequence[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def long_array(text: str, times: int) -> str:
    """Repeat what an array of JSON holds; much faster than encoding a long one."""
    inner, end = text[1:-1].rstrip("\n"), "\n]" if "\n" in text else "]"
    separator = "," if "\n" in text else ", "
    return "[" + separator.join([inner] * times) + end


def long_scan(shape: dict[str, Any], indent: int | None = None) -> str:
    """Write the answer of a scan with 10,000 items in place of 0."""
    found = long_array(json.dumps(TYPED, indent=indent), 5_000)
    return json.dumps(shape, indent=indent).replace('"Items": 0', f'"Items": {found}')


ARRAYS = [
    json.dumps(PLAIN),
    json.dumps(TYPED, separators=(",", ":")),
    json.dumps(PLAIN, indent=2),
    json.dumps(PLAIN, indent=4).replace("\n", "\r\n") + "\r\n",
    "[\n" + ",\n".join(map(json.dumps, PLAIN)) + "\n]\n",
    "[" + ",\n".join(map(json.dumps, PLAIN)) + "]\n",
    "[\n" + "\n,".join(map(json.dumps, PLAIN)) + "\n]",
    "[\n" + ",\n".join([*map(json.dumps, PLAIN)] * 2500) + "\n]\n",
    long_array(json.dumps(PLAIN), 2500),
    long_array(json.dumps(TYPED, indent=1), 2500),
    "[]\n",
    "[\n]\n",
]
SCANS = [
    json.dumps(SCAN),
    json.dumps(SCAN, indent=4),
    json.dumps(PAGE, separators=(",", ":")),
    json.dumps({"Items": PLAIN}),
    json.dumps({"Items": TYPED}, indent=2),
    json.dumps({"Items": [], "Count": 0, "ScannedCount": 0, "ConsumedCapacity": None}, indent=4),
    json.dumps({"$metadata": {}, "Count": 2, "Items": PLAIN}),
    long_scan({**SCAN, "Items": 0}, indent=4),
    long_scan({"Count": 10_000, "Items": 0}, indent=4),
    long_scan({**SCAN, "Items": 0}),
]
PRETTY = [
    json.dumps(PLAIN[0], indent=2),
    "\n".join(json.dumps(each, indent=4) for each in PLAIN) + "\n",
    "\n\n".join(json.dumps(each, indent="\t") for each in TYPED),
    "\n".join([json.dumps(each, indent=1) for each in PLAIN] * 2000),
    '{"id": "1",\n "n": 1}\n{"id": "2",\n "n": 2}\n',
    " ".join(map(json.dumps, TYPED)) + "\n",
    "\r".join(map(json.dumps, PLAIN)) + "\r",
]
HELD = [
    f'{{\n "data": {long_array(json.dumps(PLAIN, indent=1), 2500)}\n}}',
    json.dumps({"data": {"books": PLAIN, "of": []}}, indent=2),
]
SHAPES = [*ARRAYS, *SCANS, *PRETTY, *HELD]
SHORT = list(filter(is_short, SHAPES))
REFUSED = [
    ("".join(map(json.dumps, PLAIN)), "UnsupportedFormat", "jq -c . FILE"),
    ("[1, 2]", "UnsupportedFormat", "write it as objects, or as CSV"),
    ('[[{"id": "1"}]]', "UnsupportedFormat", "write it as objects, or as CSV"),
    ('["a",\n{"id": "1"}]', "UnsupportedFormat", "write it as objects, or as CSV"),
    (lines([PLAIN, PLAIN]), "InvalidJson", "the array has ended, and more follows"),
    (lines([PAGE, PAGE]) + "1", "InvalidJson", "more follows it"),
    (lines([PAGE, {"id": "3"}]), "InvalidJson", "this object has no array of rows"),
    ("[" + lines(PLAIN), "InvalidJson", "a comma or ]"),
    (json.dumps(PLAIN)[:-1], "InvalidJson", "not closed"),
    (json.dumps(PLAIN, indent=1)[:-9], "InvalidJson", "not closed"),
    (json.dumps(SCAN)[:-40], "InvalidJson", "cut off"),
    (json.dumps(PLAIN) + ",", "InvalidJson", "more follows"),
]


def objects_in(text: str) -> list[Any]:
    """Read the rows of a file as Python's `json` reads them."""
    values, at = [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = json.JSONDecoder().raw_decode(text, at)
        values.append(value)
    while len(values) == 1 and "id" not in values[0]:
        # An array, or what holds one.
        first = values[0] if isinstance(values[0], dict) else {}
        inner = [each for each in first.values() if isinstance(each, list) and each != [1, [2]]]
        values = values[0] if isinstance(values[0], list) else [*inner, *first.values()][0]
        values = values if isinstance(values, list) else [values]
    return values


@pytest.mark.parametrize(
    ("name", "format_", "table"),
    [("data", "auto", ""), ("data.csv", "json", TABLE), ("data.json", "dynamodb-json", TABLE)],
)
def test_json_of_any_layout_is_read_as_its_lines(
    tmp_path: Path, name: str, format_: str, table: str
) -> None:
    as_lines: dict[str, Outcome] = {}
    for text in SHAPES if name == "data" else SHORT:
        found = converted(tmp_path, text, name, table, format=format_)
        values = objects_in(text)
        if not values:
            assert (found.error, found.items) == (None, [])
            continue
        line = lines(values)
        same = as_lines.get(line) or converted(tmp_path, line, name, table, format=format_)
        as_lines[line] = same
        assert found.refused == same.refused, (text[:300], found.error)
        assert found.items == same.items, text[:300]
        assert len(found.rejects) == len(same.rejects)


@pytest.mark.parametrize("format_", ["auto", "json"])
@pytest.mark.parametrize(("text", "error", "words"), REFUSED)
def test_json_of_no_layout_is_refused_before_any_write(
    tmp_path: Path, text: str, error: str, words: str, format_: str
) -> None:
    found = converted(tmp_path, text, format=format_)
    assert found.refused == error
    assert words in str(found.error)
    world = World(text.encode(), source={**GUESSED, "format": format_})
    with pytest.raises(getattr(errors, error)):
        world.preflight()
    assert world.items == []


def test_layout_may_be_given(tmp_path: Path) -> None:
    text = json.dumps({"id": "1", "tags": [{"id": "a"}, {"id": "b"}]})
    assert len(converted(tmp_path, text, table=TABLE).items) == 1
    found = converted(tmp_path, text, table=TABLE, layout="object")
    assert [item["id"] for item in found.items] == [{"S": "a"}, {"S": "b"}]
    assert len(converted(tmp_path, text + " " + text, layout="values").items) == 2
    found = converted(tmp_path, text, layout="array")
    assert found.refused == "UnsupportedFormat"
    assert "byte 0: this is not a JSON array (--layout array" in str(found.error)
    assert converted(tmp_path, text, layout="array", format="csv").refused == "InvalidPayload"


@pytest.mark.parametrize("format_", ["auto", "json"])
@pytest.mark.parametrize(
    ("text", "items", "rejects"),
    [
        (lines(PLAIN), 2, 0),
        (lines(PLAIN[:1]), 1, 0),
        ("\n \n" + lines(PLAIN), 2, 0),
        ("{}\n" + lines(PLAIN), 2, 1),
        # A defect among good lines stays one.
        ("[\n" + lines(PLAIN), 2, 1),
        ('[{"id": 1},\n' + lines(PLAIN), 2, 1),
        ('[{"id": 1}]\n' + lines(PLAIN), 2, 1),
        ("[1, 2]\n" + lines(PLAIN), 2, 1),
        ("{\n" + lines(PLAIN), 2, 1),
        ('{"id": \n' + lines(PLAIN), 2, 1),
        ('{"id": 1}{"id": 2}\n' + lines(PLAIN), 2, 1),
        (lines(PLAIN) + json.dumps(PLAIN, indent=1), 2, 16),
        (lines(PLAIN) + "[\n" + lines(PLAIN) + "]\n", 4, 2),
        # Objects with an array of that name.
        (lines([{"id": "1", "Items": PLAIN}]), 1, 0),
        (lines([{"id": "1", "Items": PLAIN, "Count": 2}, {"id": "2"}]), 2, 0),
        (lines([{"Items": ["a", "b"]}]), 1, 0),
        (lines([{"Items": "a", "Count": 1}]), 1, 0),
        (lines([{"Item": PLAIN[0], "id": "1"}]), 1, 0),
        (lines([{"id": "1", "a": ["b" * 300_000]}, {"id": "2"}]), 2, 0),
        (lines([{"Items": [{"a": "b" * 300_000}], "id": "1"}, {"id": "2"}]), 2, 0),
    ],
)
def test_json_lines_are_read_line_by_line(
    tmp_path: Path, text: str, items: int, rejects: int, format_: str
) -> None:
    found = converted(tmp_path, text, "data.json", format=format_)
    assert (found.refused, len(found.items), len(found.rejects)) == (None, items, rejects)


# Weak guesses.


def test_two_readings_that_fit_alike_are_refused_with_both(tmp_path: Path) -> None:
    text = "a,b;c,d\n1,2;3,4\n5,6;7,8\n"
    found = converted(tmp_path, text)
    assert found.refused == "AmbiguousDelimiter"
    for words in (
        "--delimiter , (3 columns)",
        "or --delimiter ';' (2 columns)",
    ):
        assert words in str(found.error)
    for delimiter, columns in ((",", 3), (";", 2)):
        told = converted(tmp_path, text, delimiter=delimiter)
        assert {len(names) for names in told.names} == {columns}


def test_weak_guess_shows_no_row_of_data(tmp_path: Path) -> None:
    found = converted(tmp_path, "11,22;33,44\n55,66;77,88\n11,22;33,44\n")
    assert found.refused == "BadHeader"
    assert not any(number in str(found.error) for number in ("11", "22", "33", "44"))


@pytest.mark.parametrize("header", ["h1,h2", "names of people"])
def test_kept_error_has_no_row_that_was_taken_for_names(tmp_path: Path, header: str) -> None:
    found = converted(tmp_path, f"{header}\nalice,bob,carol\ndan,eve,fay\nann,mia,tom\n")
    assert isinstance(found.error, errors.DdbloadError)
    assert "alice" in str(found.error.options)
    kept = Failure.of(found.error).to_json()
    words = [each["options"] for each in kept["options"]]
    assert words == [
        ["NAMES" if each in ("row,h1,h2", "h1,h2,c3") else each for each in option["options"]]
        for option in found.error.options
    ]
    assert not any(
        word in str(kept) for word in ("alice", "bob", "dan", "names of people", "h1,h2")
    )


def test_no_reading_of_null_as_text_is_the_best(tmp_path: Path) -> None:
    for text in ("1,\\N,5\n2,b,6\n3,c,7\n", "1,a,5\n2,b,6\n3,c,7\n"):
        found = converted(tmp_path, text)
        assert isinstance(found.error, errors.DdbloadError)
        assert any(each["best"] for each in found.error.options) == ("\\N" not in text)


def test_first_row_like_data_is_warned_of() -> None:
    notices: list[str] = []
    for data in (b"id,v\n1,2\n", b"1,2\n3,4\n"):
        world = World(data)
        context = replace(world.context(), notice=notices.append)
        with temporary_ledger() as ledger:
            prepare_conversion(Payload.from_json(world.payload), None, ledger, context)
    (notice,) = [each for each in notices if "looks like data" in each]
    assert notice.endswith(
        ": each of its fields is a number or a date. If it is data, say --no-header (in a payload,"
        " source.header false)"
    )
