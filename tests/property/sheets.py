"""Rows of cells of every type, with the table that they are for."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime

from hypothesis import strategies as st

from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.items.item_requests import ItemBuilder
from tests.property.numerals import numerals
from tests.unit.items.expected_items import BAD

_characters = st.characters(codec="utf-8") | st.sampled_from('"\\\x01\x7fé漢😀\u2028')
_names = st.text(_characters, min_size=1, max_size=5) | st.tuples(
    _characters, st.integers(1, 60)
).map(lambda it: it[0] * it[1])


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(_characters, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(_characters, min_size=1, max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
_good_cells = {
    "S": st.text(_characters, max_size=12),
    "N": st.one_of(
        st.sampled_from(["0", "-0", "1", "1.0", "01", "+1", "10e-1", "-1.50", "1E5", ".5", "5."]),
        st.integers(0, 400).map(lambda zeros: "0" * zeros + "7"),
        st.decimals(-(10**9), 10**9, places=3).map(str),
    ),
    "BOOL": st.sampled_from(["true", "No", "YES", "1", "0", "False"]),
    "B": st.binary(min_size=1, max_size=12).map(_base64) | st.just("QR=="),
    "SS": st.lists(st.text(_characters, max_size=5), min_size=1, max_size=3, unique=True).map(
        _json
    ),
    "NS": st.sampled_from(["[1]", '["1", 2]', "[1e2, -0.50, 3]", "[0, 1, 12345678901234567890]"]),
    "BS": st.lists(st.binary(max_size=5).map(_base64), min_size=1, max_size=3, unique=True).map(
        _json
    ),
    "M": st.dictionaries(st.text(_characters, min_size=1, max_size=4), _documents, max_size=3).map(
        _json
    ),
    "L": st.lists(_documents, max_size=3).map(_json),
    "NULL": st.sampled_from(["null", "NULL", "true"]),
    "epoch": st.one_of(
        st.sampled_from(["2024-01-31", "2024-02-29 12:34", "1969-12-31T23:59:59.5+02:00"]),
        st.datetimes(timezones=st.none() | st.just(UTC)).map(datetime.isoformat),
        st.integers(0, 10**18).filter(lambda at: len(str(at)) not in (4, 8, 14)).map(str),
        st.integers(-(10**15), -1).map(str),
    ),
}
_bad_cells = {
    "S": st.text(_characters, max_size=30),
    "N": st.sampled_from(["1e-999", "1,5", ",", "1,000.5"]) | numerals,
    "BOOL": st.sampled_from(["ye", "ſ", "2", "TRUE ", "nо"]),
    **{
        kind: st.sampled_from([text for each, text in BAD if each == kind])
        for kind in sorted({kind for kind, _ in BAD})
    },
}
POLICIES = ["omit", "omit", "null", "empty", "reject"]
KEY_KINDS = {"S": "S", "N": "N", "B": "B", "epoch": "N"}


@dataclass(frozen=True)
class Sheet:
    """A table's keys, a file's columns and some of its rows."""

    columns: dict[str, str]
    keys: list[str]
    limits: dict[str, int]
    rows: list[list[str]]
    builder: ItemBuilder
    table: Table
    nulls: str

    @property
    def indexed(self) -> set[str]:
        return {key.name for key in self.table.index_keys}


@st.composite
def sheets(draw: st.DrawFn, *, rows: int = 1, good: bool = True) -> Sheet:
    """Generate sheets. If `good`, no row has a cause to be rejected."""
    names = draw(st.lists(_names, min_size=1, max_size=5, unique=True))
    kinds = [draw(st.sampled_from(["S", "S", "S", "N", "N", *_good_cells])) for _ in names]
    # Without keys there is no table: items are but converted.
    least = draw(st.sampled_from([1, 1, 1, 0]))
    keys = draw(st.lists(st.sampled_from(names), min_size=least, max_size=2, unique=True))
    kinds = [
        "N" if name in keys and kind not in KEY_KINDS else kind
        for name, kind in zip(names, kinds, strict=True)
    ]
    columns = dict(zip(names, kinds, strict=True))
    nulls = draw(st.sampled_from(POLICIES))
    indexed = [name for name, kind in columns.items() if kind in KEY_KINDS]
    attributes = [
        KeyAttribute(
            name,
            KEY_KINDS[columns.get(name, "S")],
            1024 if good else draw(st.integers(1, 20)),
        )
        for name in [*keys, *draw(st.lists(st.sampled_from([*indexed, "elsewhere"]), max_size=3))]
    ]
    limits: dict[str, int] = {}
    for key in attributes:
        limits[key.name] = min(key.max_bytes, limits.get(key.name, key.max_bytes))
    table = Table("t", "id", tuple(attributes[: len(keys)]), tuple(attributes[len(keys) :]))
    cells = [
        (
            _good_cells[kind].filter(bool)
            if good and (name in keys or nulls == "reject")
            else _good_cells[kind] | st.just("")
            if good
            else _good_cells[kind] | st.just("") | _bad_cells[kind]
        )
        for name, kind in columns.items()
    ]
    some = [list(draw(st.tuples(*cells))) for _ in range(rows)]
    builder = ItemBuilder(names, kinds, table, nulls)
    return Sheet(columns, keys, limits, some, builder, table, nulls)
