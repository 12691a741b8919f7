"""Files of DynamoDB's own tools: requests, responses, pages of scans, and models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddbload.errors import InvalidJson, UnsupportedFormat
from tests.unit.steps.guessed import converted
from tests.unit.steps.world import World
from tests.unit.steps.worlds import ManyObjects

SOURCE = {"format": "auto", "compression": "auto", "delimiter": "auto"}
SMALL = {"chunk_bytes": 1, "workers": 4}


def item(number: int) -> dict[str, Any]:
    return {
        "id": {"S": str(number)},
        "Title": {"S": 'Book "[{' * (number % 3) + "x"},
        "InPublication": {"BOOL": True},
        "Authors": {"L": [{"S": "a"}, {"M": {"n": {"N": "1"}}}]},
    }


def put(number: int) -> dict[str, Any]:
    return {"PutRequest": {"Item": item(number)}}


def delete(number: int) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": {"id": {"S": str(number)}}}}


ITEMS = [item(number) for number in range(12)]
PUTS = [put(number) for number in range(12)]


def page(items: list[Any], **more: Any) -> dict[str, Any]:
    return {"Items": items, "Count": len(items), "ConsumedCapacity": None, **more}


def table_model(name: str, rows: list[Any]) -> dict[str, Any]:
    keys = {"PartitionKey": {"AttributeName": "id", "AttributeType": "S"}}
    return {
        "TableName": name,
        "KeyAttributes": keys,
        "NonKeyAttributes": [{"AttributeName": "Title", "AttributeType": "S"}],
        "TableFacets": [{"FacetName": "f", "KeyAttributeAlias": {"PartitionKeyAlias": "id"}}],
        "GlobalSecondaryIndexes": [{"IndexName": "g", "KeyAttributes": keys}],
        "TableData": rows,
        "DataAccess": {"MySql": {}},
    }


def model(*tables: dict[str, Any]) -> dict[str, Any]:
    about = {"Author": "Amazon", "Version": "3.0"}
    return {"ModelName": "m", "ModelMetadata": about, "DataModel": list(tables)}


PAGES = [page(ITEMS[:5], LastEvaluatedKey={"id": {"S": "4"}}), page([]), page(ITEMS[5:])]
FILES = {
    "requests": json.dumps({"books": PUTS}, indent=4),
    "one line": json.dumps({"books": PUTS}),
    "several": "\n".join(json.dumps({"books": PUTS[at : at + 5]}) for at in (0, 5, 10)),
    "joined": "".join(json.dumps({"books": PUTS[at : at + 5]}, indent=1) for at in (0, 5, 10)),
    "request": json.dumps({"RequestItems": {"books": PUTS}, "ReturnConsumedCapacity": "TOTAL"}),
    "lines": "\n".join(map(json.dumps, PUTS)),
    "responses": json.dumps(
        {
            "UnprocessedKeys": {},
            "Responses": {"books": ITEMS},
            "ConsumedCapacity": [{"TableName": "books", "CapacityUnits": 1.5}],
        },
        indent=2,
    ),
    "pages": "\n".join(json.dumps(each, indent=4) for each in PAGES),
    "joined pages": "".join(map(json.dumps, PAGES)),
    "model": json.dumps(
        model(table_model("Forum", ITEMS[:3]), table_model("books", ITEMS), table_model("x", [])),
        indent=2,
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("options", [{}, SMALL], ids=["whole", "chunks"])
def test_files_of_the_tools_of_dynamodb_are_items(name: str, options: dict[str, Any]) -> None:
    world = World(FILES[name].encode(), source=SOURCE, options=options)
    assert world.run().status == "SUCCEEDED"
    assert sorted(world.items, key=lambda each: int(each["id"]["S"])) == ITEMS


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"A": PUTS[:3], "B": [put(1), delete(2)]}, r"'books': 'A' \(3\), 'B' \(2\).*--from-table"),
        ({"RequestItems": {"books": PUTS, "B": [put(1)]}}, r"other tables .* 'B' \(1\)"),
        (model(table_model("Forum", ITEMS[:3])), r"'Forum' \(3\)"),
        ({"books": [put(1), delete(2), delete(3)]}, "2 DeleteRequests, and only mode delete"),
    ],
)
def test_requests_that_are_not_for_the_run_are_counted(value: Any, message: str) -> None:
    world = World(json.dumps(value, indent=1).encode(), source=SOURCE)
    with pytest.raises(UnsupportedFormat, match=message):
        world.preflight()
    # A later one of several objects is refused, too, before anything is written.
    files = {"a.json": FILES["requests"].encode(), "b.json": json.dumps(value).encode()}
    several = ManyObjects(files=files, source=SOURCE, options={"scan": "edges"})
    with pytest.raises(UnsupportedFormat, match=message):
        several.preflight()


def test_a_table_of_another_name_is_read_if_it_is_named() -> None:
    value = {"Forum": PUTS[:4], "B": [put(9)]}
    world = World(json.dumps(value).encode(), source={**SOURCE, "from_table": "Forum"})
    assert world.run().rows.written == 4


def test_delete_requests_delete_keys_in_mode_delete() -> None:
    requests = json.dumps({"books": [delete(1), delete(2), put(3)]})
    lines = "\n".join(map(json.dumps, [delete(1), delete(2), put(3)]))
    for text in (requests, lines):
        world = World(text.encode(), source=SOURCE, options={"mode": "delete"})
        assert world.run().rows.written == 3
    # Lines are not counted before they are read.
    world = World(lines.encode(), source=SOURCE)
    assert world.run().rows.rejected == 2


def test_requests_that_are_cut_off_are_refused() -> None:
    for text in (FILES["requests"][:-1], FILES["pages"][:-2], FILES["joined"] + "}"):
        with pytest.raises(InvalidJson):
            World(text.encode(), source=SOURCE).preflight()


@pytest.mark.parametrize(
    "lines",
    [
        [page([item(1)]), item(2)],
        [page([]), item(2)],
        [*[page([])] * 2000, item(2)],
        [page([]), {"id": {"S": "2"}, "Items": []}],
        [page([item(1)]), page([]), {"Item": item(2)}],
        [page([item(1)]), {"Items": item(2)}],
        [page([item(1)]), {"id": {"S": "2"}, "Items": []}],
        [page([item(1)]), {"books": [put(2)]}],
        [page([item(1)]), {"B": [put(2)]}],
        [{"books": [put(1)]}, put(2)],
        [{"books": [put(1)]}, {"books": [{"Foo": 1}]}],
    ],
)
def test_objects_without_rows_after_others_are_refused_with_their_byte(lines: list[Any]) -> None:
    texts = [json.dumps(each) for each in lines]
    with pytest.raises(InvalidJson, match=r"^byte \d+: ") as raised:
        World("\n".join(texts).encode(), source=SOURCE).preflight()
    begin = len("\n".join(texts[:-1])) + 1
    byte = int(str(raised.value).split(":")[0].removeprefix("byte "))
    assert begin <= byte < begin + len(texts[-1])


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("end", [-1, -2, -3, -40])
def test_requests_are_no_lines_where_they_are_cut_off(indent: int | None, end: int) -> None:
    for value in ({"books": PUTS}, {"RequestItems": {"books": PUTS}}):
        pretty = json.dumps(value).replace("[", "[\n", 1).replace("}}}, ", "}}},\n")
        text = (json.dumps(value) if indent is None else pretty)[:end]
        with pytest.raises(InvalidJson, match=r"not closed|cut off"):
            World(text.encode(), source=SOURCE).preflight()


def test_models_are_converted_whole_or_refused(tmp_path: Path) -> None:
    rows_first = {"TableData": ITEMS, **table_model("books", ITEMS)}
    for indent in (None, 1):
        for size in (1, 400):
            text = json.dumps(model({**rows_first, "TableData": ITEMS * size}), indent=indent)
            for options in ({}, {"from_table": "books"}):
                found = converted(tmp_path, text, **options)
                assert "TableData before its TableName" in str(found.error)
                world = World(text.encode(), source={**SOURCE, **options})
                with pytest.raises(InvalidJson, match="TableData before its TableName"):
                    world.preflight()
    text = json.dumps(model(table_model("A", []), table_model("B", ITEMS)))
    found = converted(tmp_path, text)
    assert "rows of other tables than 'A': 'B' (12)" in str(found.error)
    assert len(converted(tmp_path, text, from_table="B").items) == 12
    with pytest.raises(UnsupportedFormat, match=r"than 'A': 'B' \(12\)"):
        World(text.encode(), source={**SOURCE, "from_table": "A"}).preflight()
