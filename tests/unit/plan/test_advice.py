"""Warnings of a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ddbload.planning import plan as planning
from ddbload.planning.make_plan import make_plan
from tests.unit.steps.world import TABLE, World

NOW = 1_700_000_000


class Told:
    """Fake DynamoDB whose table has more settings."""

    def __init__(self, inner: Any, more: Mapping[str, Any], recovery: str, expires: str | None):
        self._inner, self._more = inner, more
        self._recovery, self._expires = recovery, expires
        self.meta = inner.meta

    def describe_table(self, **given: Any) -> Any:
        answer = self._inner.describe_table(**given)
        answer["Table"].update(self._more)
        return answer

    def describe_continuous_backups(self, **_: Any) -> Any:
        described = {
            "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": self._recovery}
        }
        return {"ContinuousBackupsDescription": described}

    def describe_time_to_live(self, **_: Any) -> Any:
        if self._expires is None:
            return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
        return {
            "TimeToLiveDescription": {
                "TimeToLiveStatus": "ENABLED",
                "AttributeName": self._expires,
            }
        }


def codes(data: str, *, recovery="ENABLED", expires=None, world=None, **more) -> list[str]:
    return list(warnings(data, recovery=recovery, expires=expires, world=world, **more))


def warnings(data: str, *, recovery="ENABLED", expires=None, world=None, **more) -> dict[str, str]:
    made = World(data.encode(), **(world or {}))
    made.clock.time = NOW
    made.dynamodb = Told(made.dynamodb, more, recovery, expires)
    plan = make_plan(made.payload, made.context()).to_json()
    return {each["code"]: each["message"] for each in plan["warnings"]}


def test_no_warnings_for_ordinary_import():
    assert codes("id,name\n1,a\n2,b\n") == []


def test_warnings_name_settings_that_are_unknown():
    plan = make_plan(World(b"id\n1\n").payload, World(b"id\n1\n").context()).to_json()
    found = {each["code"]: each["message"] for each in plan["warnings"]}
    assert list(found) == ["recovery_unknown", "time_to_live_unknown"]
    assert "dynamodb:DescribeTimeToLive" in found["time_to_live_unknown"]


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ({"recovery": "DISABLED"}, "recovery_off", f"--table-name {TABLE} --point-in-time"),
        ({"ItemCount": 12_345}, "table_not_empty", "12,345 items"),
        (
            {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}},
            "stream_on",
            "2 changes",
        ),
        ({"Replicas": [{"RegionName": "eu-west-1"}]}, "global_table", "eu-west-1"),
    ],
)
def test_warnings_of_table_settings(more, code, words):
    found = warnings("id,name\n1,a\n2,b\n", **more)
    assert list(found) == [code]
    assert words in found[code]


def test_warning_when_keys_are_duplicate():
    assert codes("id,name\n1,a\n2,b\n1,c\n") == ["duplicate_keys"]
    last_wins = {"options": {"mode": "last-wins", "position_attribute": "at"}}
    assert codes("id,name\n1,a\n2,b\n1,c\n", world=last_wins) == []
    update = {"options": {"mode": "update"}}
    assert codes("id,name\n1,a\n2,b\n1,c\n", world=update) == ["duplicate_keys"]


SORTED = "".join(f"{n // 600},{n}\n" for n in range(6000))
MIXED = "".join(f"{n % 10},{n}\n" for n in range(6000))
ONE = "".join(f"0,{n}\n" for n in range(6000))


@pytest.mark.parametrize(
    ("rows", "found"),
    [(SORTED, []), (MIXED, []), (ONE, ["hot_key"])],
)
def test_warnings_of_hot_and_adjacent_partition_keys(rows, found):
    world = {"keys": (("id", "S"), ("n", "N"))}
    assert codes(f"id,n\n{rows}", world=world) == found


def test_warnings_of_indexes():
    world = {"indexes": [[("team", "S")], [("nowhere", "S")]]}
    rows = "".join(f"{n},{'' if n % 4 == 0 else 'a'}\n" for n in range(8000))
    found = warnings(f"id,team\n{rows}", world=world)
    assert list(found) == ["hot_index_key", "index_lacks_rows"]
    assert "100% of the rows" in found["hot_index_key"]
    assert "index-1 gets entries for 0 of 8,000 rows" in found["index_lacks_rows"]
    found = warnings(f"id,team\n{rows}", world={"indexes": [[("team", "S")]]})
    assert "index-0 gets entries for 6,000 of 8,000 rows" in found["index_lacks_rows"]


@pytest.mark.parametrize(
    ("expires", "types", "code"),
    [
        (NOW + 9, {"end": "N"}, "time_to_live_on"),
        (NOW - 9, {"end": "N"}, "time_to_live_past"),
        ((NOW + 9) * 1000, {"end": "N"}, "time_to_live_milliseconds"),
        (NOW + 9, {}, "time_to_live_type"),
    ],
)
def test_warnings_of_time_to_live(expires, types, code):
    data = f"id,end\n1,{expires}\n2,\n"
    assert codes(data, expires="end", world={"types": types}) == [code]
    assert codes(data, expires="another", world={"types": types}) == []


def test_docs_list_every_warning_code():
    root = Path(planning.__file__).parents[2]
    page = (root / "docs" / "plan.md").read_text("utf-8")
    folder = Path(planning.__file__).parent
    source = "".join((folder / name).read_text("utf-8") for name in ("advice.py", "plan.py"))
    named = set(re.findall(r'PlanWarning\(\s*"(\w+)"', source))
    assert len(named) >= 14
    assert [code for code in sorted(named) if f"`{code}`" not in page] == []


@pytest.mark.parametrize(("rows", "found"), [(300, []), (301, ["prewarm"])])
def test_warm_throughput_is_advised_when_it_makes_an_import_long(rows, found):
    data = "id\n" + "".join(f"{n}\n" for n in range(rows))
    assert codes(data, WarmThroughput={"WriteUnitsPerSecond": 1}) == found
    most = {"OnDemandThroughput": {"MaxWriteRequestUnits": 1}}
    assert codes(data, WarmThroughput={"WriteUnitsPerSecond": 1}, **most) == []
