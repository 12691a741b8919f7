"""Bodies of one row are the parameters that a boto3 client gets, whatever names and values are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload.contracts.run_record import Table
from ddbload.dynamodb.modes import DELETE, PUT, REMOVAL, UPDATE, Condition, RowWrites
from ddbload.items.item_requests import Joiner, joiner_for, named_values

CONDITION = Condition.read("#{a b} < {x%s} AND NOT {{ #c = {x%s} OR c.d = {\u00e9}")
ITEMS: list[dict[str, Any]] = [
    {"pk": {"S": "%s\n\x1f\x00"}, "x%s": {"N": "1"}, "\u00e9": {"S": '"\u00e9%%"'}},
    {
        "sk": {"N": "1"},
        "pk": {"S": "a"},
        'q"\\': {"L": [{"S": "%"}]},
        "x%s": {"B": "eA=="},
        "\u00e9": {"BOOL": True},
        "tags": {"SS": ["%", "\u00e9"]},
        "gone": REMOVAL,
        "\x00%": REMOVAL,
    },
]


def parameters(writes: RowWrites, item: dict[str, Any]) -> dict[str, Any]:
    """Build the parameters of one row's operation."""
    form = writes.form(list(item), [name for name, value in item.items() if value == REMOVAL])
    built: dict[str, Any] = {
        "TableName": writes.table,
        writes.mode.member: {name: item[name] for name in form.attributes},
        **form.expressions,
        "ExpressionAttributeNames": dict(form.names),
        "ExpressionAttributeValues": {place: item[name] for place, name in form.values.items()},
        "ReturnConsumedCapacity": "TOTAL",
    }
    if writes.condition is not None:
        built["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return {name: value for name, value in built.items() if value}


def joiner_of(writes: RowWrites) -> Joiner:
    return joiner_for(Table("unused", "id", ()), writes.mode, None, writes)


@pytest.mark.parametrize("mode", [PUT, UPDATE, DELETE])
@pytest.mark.parametrize("conditioned", [True, False])
@pytest.mark.parametrize("item", ITEMS)
def test_body_has_the_parameters_of_the_request(mode, conditioned, item):
    writes = RowWrites(
        mode,
        "t%able",
        ("pk", "sk"),
        frozenset({"tags"}),
        CONDITION if conditioned else None,
        conditioned and mode.updates,
        frozenset({"\u00e9"}) if conditioned else frozenset(),
    )
    joiner = joiner_of(writes)
    wanted = parameters(writes, item)
    # The second comes from the form that the first has made.
    for _ in range(2):
        assert json.loads(joiner.body([named_values(item)])) == wanted
    if mode.updates:
        others = item.keys() - {"pk", "sk"} - writes.unwritten
        names = wanted.get("ExpressionAttributeNames", {}).items()
        assert {name for place, name in names if place[1:].isdigit()} == others
    else:
        kept = item.keys() - writes.unwritten
        assert wanted[mode.member].keys() == (kept & {"pk", "sk"} if mode.deletes else kept)


def test_forms_differ_by_the_attributes_that_are_removed():
    joiner = joiner_of(RowWrites(UPDATE, "t", ("pk",)))
    rows = [{"pk": {"S": "a"}, "x": value} for value in (REMOVAL, {"S": "1"}, REMOVAL)]
    made = [json.loads(joiner.body([named_values(row)])) for row in rows]
    assert [each["UpdateExpression"] for each in made] == ["REMOVE #0", "SET #0=:0", "REMOVE #0"]


def test_condition_has_a_placeholder_for_each_name_and_column():
    assert CONDITION.expression == "#c0 < :c0 AND NOT { #c1 = :c0 OR c.d = :c1"
    assert CONDITION.names == {"#c0": "a b", "#c1": "c"}
    assert CONDITION.columns == {":c0": "x%s", ":c1": "\u00e9"}
