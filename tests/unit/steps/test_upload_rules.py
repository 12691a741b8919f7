"""Whole imports whose rows become something else than their texts: types, nulls, mappings."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.row_counts import RowCounts
from tests.unit.steps.world import World
from tests.unit.steps.worlds import assert_refused

USERS = b"id,name,seen,tags\n7,Ada,2024-02-29,[]\n8,NULL,,\n,Eve,1,\n9,Bob,soon,\n"
SINGLE_TABLE = {
    "mapping": {
        "rename": {"name": "title"},
        "drop": ["id"],
        "set": {"pk": "USER#{id}", "sk": "PROFILE", "kind": "user"},
    },
    "nulls": {"markers": ["NULL"]},
}
GONE = "a column that the mapping renames or drops"
KEYS = [("pk", "S"), ("sk", "S")]
USER_7 = {
    "pk": {"S": "USER#7"},
    "sk": {"S": "PROFILE"},
    "kind": {"S": "user"},
    "title": {"S": "Ada"},
    "seen": {"N": "1709164800"},
    "tags": {"L": []},
}
USER_8 = {"pk": {"S": "USER#8"}, "sk": {"S": "PROFILE"}, "kind": {"S": "user"}}


def users(**more: Any) -> World:
    types = {"seen": "epoch", "tags": "L"}
    return World(USERS, KEYS, **{"types": types, "more": SINGLE_TABLE, **more})


@pytest.mark.parametrize("chunk_bytes", [1, 1000])
def test_mapping_makes_keys_of_single_table_design(chunk_bytes: int) -> None:
    world = users(options={"chunk_bytes": chunk_bytes})
    report = world.run()
    assert report.rows == RowCounts(read=4, written=2, rejected=2)
    assert sorted(world.items, key=lambda item: item["pk"]["S"]) == [USER_7, USER_8]
    assert [(each["line"], each["cause"], each["column"]) for each in world.rejects()] == [
        (4, "empty_key", "pk"),
        (5, "not_a_time", "seen"),
    ]


@pytest.mark.parametrize(
    ("mapping", "error", "words"),
    [
        ({"drop": ["id"]}, errors.KeyColumnMissing, f"keyed by 'id', which is {GONE}"),
        ({"rename": {"id": "key"}}, errors.KeyColumnMissing, f"keyed by 'id', which is {GONE}"),
        ({"rename": {"x": "y"}}, errors.UnknownColumn, "'x' is to be renamed"),
        ({"rename": {"a": "id"}}, errors.DuplicateColumn, "'a' is renamed to 'id'"),
        ({"set": {"b": "{c}"}}, errors.UnknownColumn, "'c' is a part of what 'b' is set to"),
        ({"set": {"b": "{"}}, errors.InvalidPayload, "the template of 'b' has a single '{'"),
        (
            {"set": {"n": "many"}},
            errors.InvalidPayload,
            "'n' is of type N, and its constant is",
        ),
        ({"rename": {"a": ""}}, errors.EmptyColumnName, "the mapping has an empty attribute name"),
    ],
)
def test_preflight_refuses_invalid_mapping(mapping: Any, error: Any, words: str) -> None:
    types = {"n": "N"} if "n" in mapping.get("set", {}) else {}
    world = World(b"id,a\n1,2\n", types=types, more={"mapping": mapping})
    assert_refused(world, error, words)
