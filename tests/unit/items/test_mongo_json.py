"""Tests of MongoDB's extended JSON, version 2."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from ddbload.errors import UnsupportedFormat
from tests.unit.steps.world import World

SOURCE = {"format": "auto", "compression": "auto", "delimiter": "auto"}
OID = "507f1f77bcf86cd799439011"
VALUES: list[tuple[Any, Any]] = [
    ({"$oid": OID}, {"S": OID}),
    ({"$numberLong": "9223372036854775807"}, {"N": "9223372036854775807"}),
    ({"$numberInt": "-5"}, {"N": "-5"}),
    ({"$numberDouble": "1.5"}, {"N": "1.5"}),
    ({"$numberDecimal": "12345678901234567890.123"}, {"N": "12345678901234567890.123"}),
    (7, {"N": "7"}),
    ({"$date": "2020-02-29T23:59:59.123Z"}, {"S": "2020-02-29T23:59:59.123Z"}),
    ({"$date": {"$numberLong": "1582995599123"}}, {"S": "2020-02-29T16:59:59.123Z"}),
    ({"$date": {"$numberLong": "-62135596800000"}}, {"S": "0001-01-01T00:00:00Z"}),
    ({"$binary": {"base64": "AP8=", "subType": "00"}}, {"B": b"\x00\xff"}),
    ([{"$oid": OID}, {"x": {"$numberInt": "1"}}], {"L": [{"S": OID}, {"M": {"x": {"N": "1"}}}]}),
    ([{"$binary": {"base64": "AA==", "subType": "04"}}], {"L": [{"B": b"\x00"}]}),
]


def document(number: int, value: Any) -> dict[str, Any]:
    return {"_id": {"$oid": f"{number:024x}"}, "id": str(number), "v": value}


DOCUMENTS = [document(number, value) for number, (value, _) in enumerate(VALUES)]


@pytest.mark.parametrize("options", [{}, {"chunk_bytes": 1, "workers": 3}])
@pytest.mark.parametrize("kind", ["lines", "array", "gzip"])
def test_documents_are_items(kind: str, options: dict[str, Any]) -> None:
    text = json.dumps(DOCUMENTS) if kind == "array" else "\n".join(map(json.dumps, DOCUMENTS))
    data = gzip.compress(text.encode()) if kind == "gzip" else text.encode()
    world = World(data, source=SOURCE, options=options)
    assert world.run().status == "SUCCEEDED"
    found = {each["id"]["S"]: each["v"] for each in world.items}
    assert found == {str(number): value for number, (_, value) in enumerate(VALUES)}


def test_a_date_is_an_epoch_if_its_type_says_so() -> None:
    text = json.dumps(document(1, {"$date": {"$numberLong": "1582995599123"}}))
    world = World(text.encode(), source=SOURCE, types={"v": "epoch"})
    world.run()
    assert world.items[0]["v"] == {"N": "1582995599"}


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ({"$numberDouble": "NaN"}, "not_a_number"),
        ({"$numberDecimal": "-Infinity"}, "not_a_number"),
        ({"$oid": "1"}, "bad_mongo_value"),
        ({"$numberInt": 1}, "bad_mongo_value"),
        ({"$regularExpression": {"pattern": "a", "options": ""}}, "bad_mongo_value"),
        ([{"$timestamp": {"t": 1, "i": 1}}], "bad_mongo_value"),
        ({"x": {"$minKey": 1}}, "bad_mongo_value"),
        ({"$code": "1", "$scope": {}}, "bad_mongo_value"),
        ({"$binary": "AA=="}, "bad_mongo_value"),
        ({"$binary": {"base64": "?", "subType": "00"}}, "not_base64"),
        ({"$date": "2020-02-30T00:00:00Z"}, "not_a_time"),
        ({"$date": {"$numberLong": "99999999999999999"}}, "not_a_time"),
    ],
)
def test_values_without_a_type_in_dynamodb_are_rejects(value: Any, cause: str) -> None:
    text = "\n".join(map(json.dumps, [document(1, "x"), document(2, value)]))
    world = World(text.encode(), source=SOURCE)
    assert world.run().rows.rejected == 1
    (reject,) = world.rejects()
    assert (reject["cause"], reject["column"]) == (cause, "v")


@pytest.mark.parametrize(
    "data",
    [
        b"\xe0\x01\x00\xea\xee\x95",
        b"$ion_1_0 {Item:{id:1.}}\n",
        b"{Item:{id:1.}}\n",
        b"$ion_1_0 {\n Item: {id:1.}}\n",
    ],
)
def test_ion_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(UnsupportedFormat, match="Amazon Ion"):
        World(data, source=SOURCE).preflight()
