"""Limits of the write speed, and suggestions to raise capacity."""

from __future__ import annotations

import json
import shlex
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.plan.capacity import HOT_TABLE, Load, rank_limits, suggest_prewarm
from ddbload.plan.table_facts import TableFacts, table_facts
from ddbload.reading.measure import TableIndex

TABLE = Table("t.1", "id", (KeyAttribute("id", "S", 2048),))
MODEL = botocore.session.get_session().get_service_model("dynamodb")


def on_demand(**described: Any) -> TableFacts:
    return table_facts(
        TABLE, {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}, **described}, "us-east-1"
    )


def provisioned(writes: int, **described: Any) -> TableFacts:
    given = {"ReadCapacityUnits": 3, "WriteCapacityUnits": writes}
    return table_facts(TABLE, {"ProvisionedThroughput": given, **described}, "us-east-1")


def index(name: str = "idx", **more: Any) -> TableIndex:
    return TableIndex(name, True, ("x",), (), "ALL", None, **more)


def load(units: int, *indexes: tuple[TableIndex, int], hot: float = 0.0) -> Load:
    return Load(units, units, indexes, ((HOT_TABLE, hot),) if hot else ())


def parameters(command: str) -> dict[str, Any]:
    """Parse an AWS CLI command as the CLI does, and check it against botocore's model."""
    words = shlex.split(command)
    assert words[:5] == ["aws", "dynamodb", "update-table", "--table-name", "t.1"]
    given: dict[str, Any] = {"TableName": "t.1"}
    for option, value in zip(words[5::2], words[6::2], strict=True):
        name = "".join(word.capitalize() for word in option.removeprefix("--").split("-"))
        if value.startswith("["):
            given[name] = json.loads(value)
        else:
            pairs = (pair.split("=") for pair in value.split(","))
            given[name] = {key: int(number) for key, number in pairs}
    shape = MODEL.operation_model("UpdateTable").input_shape
    assert ParamValidator().validate(given, shape).generate_report() == ""
    return given


def test_rank_limits_sorts_slowest_first():
    slow = index(write_capacity=10)
    facts = provisioned(1000)
    assert rank_limits(facts, load(5000, (slow, 5000)))[0].what == "index idx"
    assert rank_limits(facts, load(5000, (slow, 10)))[0].what == "table"
    assert rank_limits(on_demand(), load(10**6, hot=9e5))[0].what == HOT_TABLE
    assert rank_limits(on_demand(), load(10**6), max_wcu=10)[0].what == "max_wcu"
    fast = on_demand(WarmThroughput={"WriteUnitsPerSecond": 10**9})
    assert rank_limits(fast, load(10**9))[0].what == "processors"
    stuck = rank_limits(provisioned(9), load(10, (index(write_capacity=0), 10)))[0]
    assert (stuck.what, stuck.to_json()["seconds"]) == ("index idx", None)


def test_suggest_prewarm_warms_on_demand_table():
    facts = on_demand()
    wanted = load(6_000_000, (index(), 6_000_000), (index("warm", warm_writes=30_000), 9))
    better = suggest_prewarm(facts, wanted, rank_limits(facts, wanted))
    given = parameters(better.command)
    assert given["WarmThroughput"] == {"WriteUnitsPerSecond": 20_000}
    assert given["GlobalSecondaryIndexUpdates"] == [
        {"Update": {"IndexName": "idx", "WarmThroughput": {"WriteUnitsPerSecond": 20_000}}}
    ]
    assert better.dollars == pytest.approx(2 * 16_000 * 0.00065)
    assert better.seconds == 300
