"""Runs of numbers and times as other programs write them, and of numbers without a type."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload import errors
from tests.unit.steps.world import World

NUMBERS = ("1 -17 0", "2.5")
OTHERS = ("00123 7", "1.0", "9.90", "+5", "1e5", "-0", "9" * 39, "0." + "1" * 38, "1 N/A", "true")


@pytest.mark.parametrize("cells", [*NUMBERS, *OTHERS])
def test_report_names_columns_that_look_like_numbers(cells: str) -> None:
    text = "id,n,k,t\n" + "".join(f"{n},{cell},1,x\n" for n, cell in enumerate(cells.split()))
    world = World(text.encode(), types={"k": "S"}, indexes=[[("id", "S")]])
    world.run()
    expected = ("n",) if cells in NUMBERS else ()
    assert world.ledger.record().look_like_numbers == expected
    assert world.report().look_like_numbers == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"more": {"infer_types": True}},
        {"types": {"n": "S"}},
        {"keys": (("n", "N"),)},
        {"more": {"mapping": {"drop": ["n"]}}},
        {"options": {"mode": "delete"}},
    ],
)
def test_typed_columns_do_not_look_like_numbers(settings: dict[str, Any]) -> None:
    world = World(b"id,n\na,1\n", **settings)
    world.run()
    assert world.report().look_like_numbers == ()


def test_renamed_columns_are_named_as_attributes() -> None:
    world = World(b"id,n\na,1\n", more={"mapping": {"rename": {"n": "m"}}})
    world.run()
    assert world.report().look_like_numbers == ("m",)


FILE = (
    'id;price;day;at\na;1.234.567,89;31/12/2024;1 Jan 2024\nb;"-0,5";29/02/2024;2 Jan 2024\n'
    "c;1.23,5;01/01/2024;x\nd;12,5;30/02/2024;\n"
)


def test_values_are_read_in_the_given_forms() -> None:
    world = World(
        FILE.encode(),
        source={"delimiter": ";", "decimal": ",", "thousands": "."},
        types={"price": "N", "day": "date:%d/%m/%Y", "at": "epoch:%d %b %Y"},
        more={"where": ["price>=-0,5"]},
    )
    world.run()
    found = {item["id"]["S"]: item for item in world.items}
    assert found["a"] == {
        "id": {"S": "a"},
        "price": {"N": "1234567.89"},
        "day": {"S": "2024-12-31"},
        "at": {"N": "1704067200"},
    }
    assert found["b"]["price"] == {"N": "-0.5"}
    causes = {(each["column"], each["cause"]) for each in world.rejects()}
    assert causes == {("price", "not_a_number"), ("day", "not_a_time")}
    for each in world.rejects():
        assert "1.23,5" not in each["detail"]
        assert "30/02" not in each["detail"]


@pytest.mark.parametrize("mode", ["update", "delete"])
def test_keys_are_read_in_the_given_form(mode: str) -> None:
    world = World(
        b"n;a\n1.000;x\n",
        keys=(("n", "N"),),
        source={"delimiter": ";", "decimal": ",", "thousands": "."},
        options={"mode": mode},
    )
    world.dynamodb.put_item(TableName="books", Item={"n": {"N": "1000"}, "b": {"S": "y"}})
    world.run()
    left = [] if mode == "delete" else [{"n": {"N": "1000"}, "a": {"S": "x"}, "b": {"S": "y"}}]
    assert world.items == left


def test_numbers_of_json_have_no_form() -> None:
    world = World(b'{"id":"a"}', source={"format": "json", "decimal": ","})
    with pytest.raises(errors.InvalidPayload, match="are for delimited text"):
        world.preflight()
