"""One update for two rows of a key leaves the item that theirs leave one after the other."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ddbload.dynamodb.modes import MAX_EXPRESSION_BYTES, REMOVAL, SETS, UPDATE, Condition, RowWrites

KEY = {"id": {"S": "k"}}
ADDED = frozenset({"tags", "more"})
WRITES = RowWrites(UPDATE, "t", ("id",), ADDED)

texts = st.sampled_from(["x", "y", ""]).map(lambda text: {"S": text})
strings = st.lists(st.sampled_from("pqr"), min_size=1, unique=True).map(lambda m: {"SS": m})
numbers = st.lists(st.sampled_from(["1", "1.0", "2e1"]), min_size=1, max_size=1).map(
    lambda m: {"NS": m}
)
removal = st.just(REMOVAL)
rows = st.fixed_dictionaries(
    {},
    optional={
        "a": texts | removal,
        "b": texts | strings | removal,
        "tags": strings | numbers | removal,
        "more": strings | numbers | removal,
    },
).map(lambda row: KEY | row)
items = st.none() | st.fixed_dictionaries(
    {}, optional={"a": texts, "b": texts, "c": texts, "tags": strings | numbers, "more": texts}
).map(lambda item: KEY | item)


REFUSED = "refused"


def plain(value: dict[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind not in SETS:
        return kind, content
    return kind, frozenset(map(Decimal, content) if kind == "NS" else content)


def after(item: dict[str, Any] | None, *updates: dict[str, Any]) -> dict[str, Any] | str | None:
    """Apply updates to an item as DynamoDB does; refused if it refuses one of them."""
    new = None if item is None else {name: plain(value) for name, value in item.items()}
    for update in updates:
        changes = {name: value for name, value in update.items() if name not in KEY}
        if new is None and changes and all(value == REMOVAL for value in changes.values()):
            # DynamoDB makes no item to remove attributes from it.
            continue
        new = {"id": ("S", "k")} if new is None else new
        for name, value in changes.items():
            if value == REMOVAL:
                new.pop(name, None)
            elif name in ADDED and name in new:
                kind, content = plain(value)
                if new[name][0] != kind:
                    return REFUSED
                new[name] = kind, new[name][1] | content
            else:
                new[name] = plain(value)
    return new


@given(items, rows, rows)
@example(None, KEY | {"a": {"S": "x"}}, KEY | {"a": REMOVAL})
@example(None, KEY, KEY | {"a": REMOVAL})
@example(None, KEY | {"a": REMOVAL}, KEY)
def test_merged_update_does_what_both_do_one_after_the_other(item, earlier, later):
    merged = WRITES.merged(earlier, later)
    if merged is not None:
        assert after(item, merged) == after(item, earlier, later)


@given(items, rows, rows, rows)
def test_three_rows_are_merged_as_one_after_the_other(item, first, second, third):
    merged = WRITES.merged(first, second)
    merged = None if merged is None else WRITES.merged(merged, third)
    if merged is not None:
        assert after(item, merged) == after(item, first, second, third)


def test_rows_whose_attributes_differ_are_merged_up_to_the_longest_expression():
    row: dict[str, Any] = dict(KEY)
    for count in range(1000):
        merged = WRITES.merged(row, KEY | {f"a{count}": {"S": "x"}})
        if merged is None:
            break
        row = merged
    expression = WRITES.form(list(row)).expressions["UpdateExpression"]
    assert MAX_EXPRESSION_BYTES - 12 < len(expression) <= MAX_EXPRESSION_BYTES


def test_rows_with_a_condition_are_not_merged():
    row = KEY | {"a": {"S": "x"}}
    condition = Condition.read("attribute_exists(#a)")
    assert RowWrites(UPDATE, "t", ("id",), condition=condition).merged(row, row) is None
    assert RowWrites(UPDATE, "t", ("id",), only_existing=True).merged(row, row) is None
