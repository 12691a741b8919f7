"""Laws of layouts: rows together become the same as one by one, in every mode."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.column_mapping import ColumnChanges, Dialect
from ddbload.contracts.options import Options
from ddbload.contracts.payload import NullHandling
from ddbload.contracts.run_record import Cursor, KeyAttribute, Table
from ddbload.dynamodb.modes import DELETE, INSERT, LAST_WINS, PUT, WriteMode, position
from ddbload.items.item_requests import Item, item_of_request, joiner_for
from ddbload.items.row_attributes import ItemLayout
from ddbload.items.row_encoder import FieldEncoder
from ddbload.rows.blocks import Block, Defect, RowPositions
from ddbload.rows.columns import Columns, from_octets, to_octets
from ddbload.rows.dialect_grammar import dialect_boundaries
from tests.unit.contracts.message_samples import RECORD

STARTED = 1_760_000_000.0
_texts = st.text(st.sampled_from('ab%s{}"\\\x01é漢😀\u2028'), max_size=6)
_cells = st.sampled_from(["", "NULL", "\\N", "ø"]) | _texts


@dataclass(frozen=True)
class Mapped:
    """Rows of a file, and a mapping."""

    columns: list[str]
    rows: list[list[str]]
    rename: dict[str, str]
    drop: list[str]
    composed: dict[str, list[tuple[bool, str]]]
    """Parts of each composed attribute: whether it is a column, and its name or text."""
    markers: list[str]

    @property
    def layout(self) -> ItemLayout:
        written = {
            name: "".join(
                f"{{{part}}}" if is_column else part.replace("{", "{{").replace("}", "}}")
                for is_column, part in parts
            )
            for name, parts in self.composed.items()
        }
        changes = ColumnChanges.of(rename=self.rename, drop=self.drop, set=written)
        return ItemLayout.of(self.columns, changes, self.markers)

    @property
    def cells(self) -> Columns:
        """The rows as the reader gives them."""
        rows = [[to_octets(cell) for cell in row] for row in self.rows]
        said = "".join(cell for row in rows for cell in row)
        return Columns(
            len(rows),
            [*zip(*rows, strict=True)],
            longest=max(sum(map(len, row)) + len(row) - 1 for row in rows),
            plain=json.dumps(said, ensure_ascii=False) == f'"{said}"',
        )

    def expected(self, row: list[str]) -> dict[str, str]:
        """Return a row's attributes, computed the slow way. Nulls are empty."""
        cells = {
            name: "" if cell in self.markers else cell
            for name, cell in zip(self.columns, row, strict=True)
        }
        made = {
            self.rename.get(name, name): cell
            for name, cell in cells.items()
            if name not in self.drop
        }
        for name, parts in self.composed.items():
            said = [cells[part] if is_column else part for is_column, part in parts]
            known = all(cells[part] for is_column, part in parts if is_column)
            made[name] = "".join(said) if known else ""
        return made


@st.composite
def mapped(draw: st.DrawFn) -> Mapped:
    columns = draw(st.permutations(["id", "b", "né", "a b", "#"]))[: draw(st.integers(1, 5))]
    fates = [draw(st.sampled_from(["stays", "stays", "renamed", "dropped"])) for _ in columns]
    drop = [name for name, fate in zip(columns, fates, strict=True) if fate == "dropped"]
    some = [name for name, fate in zip(columns, fates, strict=True) if fate == "renamed"]
    stays = [name for name, fate in zip(columns, fates, strict=True) if fate == "stays"]
    # A name that is free, for what was dropped or renamed, or a new one.
    free = draw(st.permutations([*drop, *some, "new", "pk", "{x}", "%s", "y"]))
    rename = dict(zip(some, free, strict=False))
    left = [name for name in (*free[len(some) :], *stays) if name not in rename.values()]
    names = draw(st.lists(st.sampled_from(left), max_size=3, unique=True))
    parts = st.lists(
        st.tuples(st.just(True), st.sampled_from(columns)) | st.tuples(st.just(False), _texts),
        max_size=4,
    )
    return Mapped(
        columns,
        [[draw(_cells) for _ in columns] for _ in range(draw(st.integers(1, 6)))],
        rename,
        drop,
        {name: draw(parts) for name in names},
        draw(st.sampled_from([[], [], ["NULL"], ["\\N", "ø"]])),
    )


@given(mapped())
def test_layout_of_columns_equals_layout_of_rows(case: Mapped) -> None:
    layout, columns = case.layout, case.layout.apply(case.cells)
    together = list(zip(*columns.cells, strict=True)) or [()] * columns.count
    for row, cells in zip(case.rows, together, strict=True):
        expected = case.expected(row)
        assert set(layout.attributes) == set(expected)
        assert dict(zip(layout.attributes, layout.row(row), strict=True)) == expected
        assert dict(zip(layout.attributes, map(from_octets, cells), strict=True)) == expected


@given(mapped())
def test_columns_stay_within_what_they_claim(case: Mapped) -> None:
    columns = case.layout.apply(case.cells)
    for cells in zip(*columns.cells, strict=True):
        if columns.longest is not None:
            assert sum(map(len, cells)) <= columns.longest
        if columns.plain:
            for cell in cells:
                assert json.dumps(cell, ensure_ascii=False) == f'"{cell}"'


ABSENT: dict[str, dict[str, Any]] = {"null": {"NULL": True}, "empty": {"S": ""}}


def encoder_for(
    mode: WriteMode, layout: ItemLayout, table: Table, nulls: str = "omit"
) -> FieldEncoder:
    position_attribute = "at" if mode.keeps_position else None
    options = Options(mode=mode.name, position_attribute=position_attribute)
    record = replace(
        RECORD,
        payload=replace(RECORD.payload, options=options, nulls=NullHandling(nulls)),
        types=("S",) * len(layout.attributes),
        table=table,
        created=STARTED,
    )
    return FieldEncoder(record, layout, joiner_for(table, mode, position_attribute))


@given(
    mapped(),
    st.sampled_from([PUT, DELETE, INSERT, LAST_WINS]),
    st.sampled_from(["omit", "null", "empty"]),
    st.randoms(),
)
def test_every_mode_sends_the_mapped_attributes(
    case: Mapped, mode: WriteMode, nulls: str, rng: Any
) -> None:
    layout = case.layout
    if not layout.attributes:
        return
    keys = rng.sample(layout.attributes, min(len(layout.attributes), rng.randint(1, 2)))
    table = Table("t", "id", tuple(KeyAttribute(key, "S", 9) for key in keys))
    encoder = encoder_for(mode, layout, table, nulls)
    joiner = joiner_for(table, mode, "at" if mode.keeps_position else None)
    # Places are all that modes want to know of the text.
    block = Block(b"x\n" * len(case.rows), Cursor(1000, 7))
    places = RowPositions(block, dialect_boundaries(Dialect()), len(case.rows))
    encoded = encoder.encoder.encode(encoder.attributes(case.cells, places))
    for row, fields in enumerate(case.rows):
        byte = 1000 + 2 * row
        built = encoder.build(fields, byte)
        expected = case.expected(fields)
        if isinstance(built, Defect):
            assert row in encoded.odd
            said = [to_octets(expected[key]) for key in keys]
            assert not all(said) or max(map(len, said)) > 9
            continue
        attributes = {
            name: {"S": said} if said else ABSENT[nulls]
            for name, said in expected.items()
            if said or nulls in ABSENT
        }
        if mode.deletes:
            attributes = {name: attributes[name] for name in keys}
        if mode.keeps_position:
            attributes["at"] = {"S": position(STARTED, byte)}
        assert built.attributes == attributes
        if row not in encoded.odd:
            assert item_of_request(encoded.puts[row]) == attributes
            assert encoded.keys[row] == built.key == tuple(to_octets(expected[key]) for key in keys)
            assert joiner.body([encoded.puts[row]]) == joiner.body([joiner.request(built)])


@given(mapped(), st.sampled_from([PUT, DELETE]))
def test_defect_names_the_files_column_or_the_composed_attribute(
    case: Mapped, mode: WriteMode
) -> None:
    layout = case.layout
    for key in layout.attributes:
        table = Table("t", "id", (KeyAttribute(key, "S", 9),))
        for row in case.rows:
            built = encoder_for(mode, layout, table).build(row, 0)
            if isinstance(built, Item):
                continue
            named = built.column_of(case.columns)
            if key in case.composed:
                assert named == built.column == key
            else:
                assert case.rename.get(named or "", named) == key
                assert built.column == case.columns.index(named or "")
