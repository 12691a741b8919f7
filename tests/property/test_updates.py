"""Law of mode `update`: the table is a plain merge of the rows, whatever is interrupted or late."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ddbload.contracts.row_counts import RowCounts
from tests.property.scenes import EVENTS
from tests.unit.steps.chaos import Chaos, Event, Plan, plan
from tests.unit.steps.generated import Sizes
from tests.unit.steps.world import TABLE, World

CELLS = st.sampled_from(["", "", "x", "y", "é%s"])
TAGS = st.sampled_from(["", "p", "q"])
Row = tuple[str, str, str, str]
"""Key, two strings, and a member of a set."""


def merged(table: dict[str, Any], rows: list[Row], *, removes: bool) -> dict[str, Any]:
    """Merge rows into items as plain dictionaries."""
    for key, a, b, tag in rows:
        if removes and not (a or b or tag) and key not in table:
            # DynamoDB makes no item to remove attributes from it.
            continue
        item = table.setdefault(key, {"id": key})
        for name, cell in (("a", a), ("b", b)):
            if cell:
                item[name] = cell
            elif removes:
                item.pop(name, None)
        if tag:
            item["tags"] = item.get("tags", frozenset()) | {tag}
    return table


def csv_of(rows: list[Row]) -> bytes:
    sets = {"": ""} | {tag: f'"[""{tag}""]"' for tag in "pq"}
    lines = (",".join([key, a, b, sets[tag]]) for key, a, b, tag in rows)
    return "\n".join(["id,a,b,tags", *lines]).encode()


def json_of(rows: list[Row]) -> bytes:
    objects = (
        {"id": key, "a": a or None, "b": b or None, "tags": [tag] if tag else None}
        for key, a, b, tag in rows
    )
    return "\n".join(map(json.dumps, objects)).encode()


def plain(item: dict[str, Any]) -> dict[str, Any]:
    values = {name: next(iter(value.items())) for name, value in item.items()}
    return {n: frozenset(v) if kind == "SS" else v for n, (kind, v) in values.items()}


@settings(max_examples=max(1, settings.default.max_examples // 5))
@given(
    st.lists(st.tuples(st.sampled_from("klmn"), CELLS, CELLS, TAGS), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([20, 60, 10**6]),
    st.binary(min_size=1 + 3 * EVENTS, max_size=1 + 3 * EVENTS),
)
def test_table_is_the_merge_of_all_rows(rows, one_row_a_key, is_json, removes, chunk_bytes, recipe):
    events = plan(recipe)
    if one_row_a_key:
        rows = [(f"{key}{place}", *rest) for place, (key, *rest) in enumerate(rows)]
    else:
        # In one chunk, which a preflight that is cut would make two of. And a write of a dead or of
        # a second worker that arrives after that of a later row may win.
        chunk_bytes = 10**6
        others = (Event.LATE, Event.DOUBLE, Event.OTHERS)
        events = Plan(
            tuple(each for each in events.events if each[1] not in others),
            backwards=False,
            spares_preflight=True,
        )
    rows = [(key, a, b, tag) for key, a, b, tag in rows]
    world = World(
        json_of(rows) if is_json else csv_of(rows),
        source={"format": "json" if is_json else "csv"},
        types={"tags": "SS"},
        options={
            "mode": "update",
            "add": ["tags"],
            "chunk_bytes": chunk_bytes,
            "on_empty": "remove" if removes else "keep",
        },
    )
    there = {key: {"id": key, "a": "old", "c": "kept"} for key in ("k", "l", "k0", "n2")}
    for item in there.values():
        attributes = {name: {"S": text} for name, text in item.items()}
        world.dynamodb.put_item(TableName=TABLE, Item=attributes)
    chaos = Chaos(world, events)
    sizes = Sizes(16, 64, batch_rows=2, ready_rows=5, spread_rows=1, attempt_rows=3)
    with sizes():
        report = chaos.conclude()
    counts = report.rows
    # Rows that were merged into a later one of their key are superseded.
    assert counts == RowCounts(
        read=len(rows), written=counts.written, superseded=len(rows) - counts.written
    )
    assert counts.written >= len({key for key, *_ in rows})
    assert report.repeated <= len(rows) - len({key for key, *_ in rows})
    if not events.events:
        # An invocation that continues does not know the keys of the one before.
        assert counts.superseded <= report.repeated
    assert {item["id"]["S"]: plain(item) for item in world.items} == merged(
        there, rows, removes=removes
    )
    if not any(event in (Event.DOUBLE, Event.OTHERS) for event in chaos.happened):
        assert world.dynamodb.overlaps == []
