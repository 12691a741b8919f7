"""Tests of cells in DynamoDB JSON, as the AWS console writes lists and maps to CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.row_attributes import TEXT_READERS
from tests.unit.steps.world import RUN, World

LIST = '[{"S": "a"}, {"N": "1.50"}, {"M": {"k": {"BOOL": false}}}]'
LIST_VALUE = {"L": [{"S": "a"}, {"N": "1.50"}, {"M": {"k": {"BOOL": False}}}]}
MAP = '{"zip": {"N": "32301"}, "M": {"M": {}}, "S": {"SS": ["x", "y"]}}'
MAP_VALUE = {"M": {"zip": {"N": "32301"}, "M": {"M": {}}, "S": {"SS": ["x", "y"]}}}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("ddb_L", LIST, LIST_VALUE),
        ("ddb_L", f'{{"L": {LIST}}}', LIST_VALUE),
        ("ddb_L", "[]", {"L": []}),
        ("ddb_M", MAP, MAP_VALUE),
        ("ddb_M", f'{{"M": {MAP}}}', MAP_VALUE),
        ("ddb_M", "{}", {"M": {}}),
        ("ddb_M", '{"M": {"S": "x"}}', {"M": {"M": {"S": "x"}}}),
        ("json_L", '[{"S": "a"}]', {"L": [{"M": {"S": {"S": "a"}}}]}),
        ("json_M", '{"k": {"S": "a"}}', {"M": {"k": {"M": {"S": {"S": "a"}}}}}),
    ],
)
def test_cell_becomes_the_values(kind: str, text: str, value: dict[str, Any]) -> None:
    assert TEXT_READERS[kind](text) == value


@pytest.mark.parametrize(
    ("kind", "text", "cause"),
    [
        ("ddb_L", '["a"]', "bad_attribute"),
        ("ddb_L", '[{"S": "a"}, {"N": 1}]', "bad_attribute"),
        ("ddb_L", '[{"S": "a", "N": "1"}]', "bad_attribute"),
        ("ddb_L", '{"M": {}}', "not_a_list"),
        ("ddb_L", "7", "not_a_list"),
        ("ddb_L", "[" * 100_000, "nested_too_deep"),
        ("ddb_M", '{"k": "v"}', "bad_attribute"),
        ("ddb_M", '{"k": {"S": "a"}, "k": {"S": "b"}}', "duplicate_name"),
        ("ddb_M", "[]", "not_a_map"),
        ("ddb_M", '{"k": {"SS": []}}', "empty_set"),
    ],
)
def test_other_cell_is_a_reject(kind: str, text: str, cause: str) -> None:
    with pytest.raises(BadValue) as caught:
        TEXT_READERS[kind](text)
    assert caught.value.cause == cause


def told(cells: list[str], types: Mapping[str, str]) -> tuple[World, list[str]]:
    rows = "".join(f"{n};{cell}\n" for n, cell in enumerate(cells))
    world = World(
        ("id;c\n" + rows).encode(), source={"delimiter": ";", "quote": None}, types=dict(types)
    )
    context, notices = world.context(), []
    context.notice = notices.append
    world.preflight_step(None, context)
    return world, notices


def loaded(world: World) -> list[Any]:
    world.import_all()
    assert world.report().rows.read == world.report().rows.written
    return [item.get("c") for item in sorted(world.items, key=lambda item: item["id"]["S"])]


def test_column_of_the_console_is_recognized_and_said() -> None:
    world, notices = told(["", "[]", '[{"S": "a"}]', '[{"N": "1"}]'], {"c": "L"})
    assert world.ledger.record().types == ("S", "ddb_L")
    (notice,) = notices
    assert notice == (
        "column 'c' is in DynamoDB JSON, as the AWS console writes it, and is read as L (as plain"
        " JSON: --types c=json_L)"
    )
    assert loaded(world) == [None, {"L": []}, {"L": [{"S": "a"}]}, {"L": [{"N": "1"}]}]


def test_mixed_column_is_read_one_way_and_said() -> None:
    world, notices = told(['[{"S": "a"}]', '["b"]'], {"c": "L"})
    assert world.ledger.record().types == ("S", "L")
    (notice,) = notices
    assert notice == (
        "column 'c' is read as plain JSON, although 1 of its first 2 cells are in DynamoDB JSON;"
        " say which it is (--types c=ddb_L or c=json_L)"
    )
    assert loaded(world) == [{"L": [{"M": {"S": {"S": "a"}}}]}, {"L": [{"S": "b"}]}]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (['[{"S": "a"}]'], "json_L"),
        (['["a"]', "[]"], "L"),
        (["[]", ""], "L"),
        (['{"k": "v"}'], "M"),
        (['{"k": {"S": "v"}}'], "json_M"),
        (['{"k": {"S": "v"}}'], "ddb_M"),
        (['{"k": {"S": "v"}}'], "S"),
    ],
)
def test_other_columns_stay_as_declared(cells: list[str], kind: str) -> None:
    world, notices = told(cells, {"c": kind})
    assert world.ledger.record().types == ("S", kind)
    assert notices == []


def test_run_of_a_version_that_recognized_nothing_keeps_its_types() -> None:
    world, _ = told(['{"k": {"S": "v"}}'], {"c": "json_M"})
    before = world.ledger.record()
    payload = replace(before.payload, types={"c": "M"})
    world.ledger.put_record(replace(before, types=("S", "M"), payload=payload))
    # The parts of the manifest are the other run's.
    for name in world.in_ledger("manifest"):
        del world.store.objects[f"runs/{RUN}/{name}"]
    world.types = {"c": "M"}
    world.preflight()
    assert world.ledger.record().types == ("S", "M")
