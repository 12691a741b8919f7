"""Laws of the modes: each keeps its promise, whatever is interrupted, repeated or late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.results import Report
from ddbload.dynamodb import modes
from ddbload.dynamodb.modes import DELETE, INSERT, LAST_WINS, WriteMode, position
from tests.property.scenes import FEWER, Scene, scenes
from tests.unit.steps.chaos import Chaos, Event
from tests.unit.steps.expected import Expected, Key, Outcome, Values, status_for, table_of
from tests.unit.steps.world import TABLE, World, by_value

AT = "at, in the file"
"""The position attribute of these tests."""
MODES: dict[str, dict[str, Any]] = {
    name: {"mode": name, **({"position_attribute": AT} if mode.keeps_position else {})}
    for name, mode in modes.MODES.items()
}


def world_of(scene: Scene, mode: WriteMode) -> World:
    return scene.case.world(scene.chunk_bytes, MODES[mode.name])


def survive(scene: Scene, world: World) -> Report:
    """Run to the end with all interruptions, and return the report."""
    chaos = Chaos(world, scene.plan)
    with scene.sizes():
        return chaos.conclude()


def without_positions(table: Mapping[Key, Values]) -> dict[Key, Values]:
    return {
        key: {name: value for name, value in item.items() if name != AT}
        for key, item in table.items()
    }


def attributes(values: Mapping[str, tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return an item of the oracle's in DynamoDB JSON."""
    return {
        name: {kind: value if kind == "BOOL" else str(value)}
        for name, (kind, value) in values.items()
    }


def put(world: World, values: Mapping[str, tuple[str, Any]], **more: dict[str, Any]) -> None:
    world.dynamodb.put_item(TableName=TABLE, Item={**attributes(values), **more})


def keys_only(world: World, values: Mapping[str, tuple[str, Any]]) -> Values:
    return {name: values[name] for name, _ in world.keys}


# last-wins


@FEWER
@given(scenes())
def test_last_wins_keeps_the_last_row_of_each_key(scene: Scene) -> None:
    world, outcome = world_of(scene, LAST_WINS), scene.case.outcome
    report = survive(scene, world)
    table = table_of(world)
    assert without_positions(table) == outcome.last_of_each_key
    started = world.ledger.record().created
    assert {key: item[AT][1] for key, item in table.items()} == {
        row.key: position(started, row.byte) for row in outcome.items
    }
    assert report.status == status_for(report.rows)
    assert report.rows.conserved
    assert report.rows.skipped == 0
    assert report.rows.read == len(outcome.rows)
    assert report.rows.rejected == len(outcome.rejects)
    assert report.rows.written >= len(table)
    if scene.case.has_unique_keys:
        assert report.rows.superseded == 0


@FEWER
@given(scenes(), scenes(), st.booleans())
def test_last_wins_keeps_rows_of_the_later_run(
    one: Scene, other: Scene, later_is_first: bool
) -> None:
    # The same columns: of two files into one table.
    other = replace(other, case=replace(one.case, data=_rows_moved(one)))
    earlier, later = world_of(one, LAST_WINS), world_of(other, LAST_WINS)
    later.dynamodb = earlier.dynamodb
    earlier.preflight()
    later.clock.time = earlier.clock.time + 0.000001
    later.preflight()
    for scene, world in (
        [(other, later), (one, earlier)]
        if later_is_first
        else [
            (one, earlier),
            (other, later),
        ]
    ):
        report = survive(scene, world)
        assert report.status == status_for(report.rows)
        assert report.rows.conserved
    expected = one.case.outcome.last_of_each_key | other.case.outcome.last_of_each_key
    assert without_positions(table_of(later)) == expected


def _rows_moved(scene: Scene) -> bytes:
    """Return a file with some rows of another, each whole, at other places."""
    data, rows = scene.case.data, scene.case.outcome.rows
    if len(rows) < 3:
        return data
    return data[: rows[0].byte] + data[rows[1].byte :]


# insert


def first_of_each_key(outcome: Outcome) -> dict[Key | None, Values | None]:
    return {row.key: row.item for row in reversed(outcome.items)}


@FEWER
@given(scenes(), st.integers(0, 3))
def test_insert_overwrites_nothing(scene: Scene, every: int) -> None:
    world, outcome = world_of(scene, INSERT), scene.case.outcome
    there = [row.item or {} for row in outcome.items[:: every + 1]] if every else []
    for place, item in enumerate(there):
        # Some are what the file would make of them.
        put(world, item, **({"theirs": {"BOOL": True}} if place % 2 else {}))
    before = table_of(world)
    report = survive(scene, world)
    table, own = table_of(world), outcome.all_of_each_key
    assert table.keys() == own.keys()
    assert {key: table[key] for key in before} == before
    assert all(item in own[key] for key, item in table.items() if key not in before)
    if len(world.manifest) <= 1:
        # Of rows that one worker sees, the first wins.
        assert table == first_of_each_key(outcome) | before
    rows = report.rows
    assert report.status == status_for(report.rows)
    assert rows.conserved
    assert (rows.read, rows.rejected) == (len(outcome.rows), len(outcome.rejects))
    assert rows.superseded == 0
    identical = report.identical or 0
    assert identical <= rows.skipped
    if scene.case.has_unique_keys:
        # Neither a lost answer, nor a kill, nor a row written twice makes a row skipped.
        others = sum("theirs" in item for item in before.values())
        assert rows.skipped == others + identical
        assert identical <= len(before) - others
        assert rows.written >= len(table) - len(before)


CUTS = {Event.DEADLINE, Event.STOP, Event.REPORT}


@FEWER
@given(scenes())
def test_insert_skips_items_of_another_run(scene: Scene) -> None:
    cuts = tuple(each for each in scene.plan.events if each[1] in CUTS)
    scene = replace(scene, plan=replace(scene.plan, events=cuts))
    world, outcome = world_of(scene, INSERT), scene.case.outcome
    there = first_of_each_key(outcome)
    for item in there.values():
        put(world, item or {})
    before = table_of(world)
    report = survive(scene, world)
    assert table_of(world) == before
    assert report.status == status_for(report.rows)
    assert report.rows.skipped == len(outcome.items)
    assert report.rows.skipped + report.rows.rejected == report.rows.read
    if scene.case.has_unique_keys:
        assert (report.identical or 0) == len(outcome.items)


# delete


@FEWER
@given(scenes())
def test_delete_removes_listed_items_only(scene: Scene) -> None:
    world = world_of(scene, DELETE)
    # Whatever stands in other columns, it need not be of their types.
    outcome = replace(scene.case, types={}).outcome
    listed = [row for row in outcome.items if row.item]
    for row in listed[::2]:
        put(world, keys_only(world, row.item or {}), theirs={"S": "x"})
    kept = {name: ("S", "kept") if kind == "S" else ("N", -7) for name, kind in world.keys}
    put(world, kept)
    report = survive(scene, world)
    assert [by_value(item) for item in world.items] == [by_value(attributes(kept))]
    assert report.status == status_for(report.rows)
    assert report.rows.conserved
    assert report.rows.skipped == 0
    assert report.rows.read == len(outcome.rows)
    assert report.rows.rejected == len(_not_keys(world, outcome))
    assert report.rows.written >= len({row.key for row in listed})


def _not_keys(world: World, outcome: Outcome) -> list[Expected]:
    return outcome.rejects
