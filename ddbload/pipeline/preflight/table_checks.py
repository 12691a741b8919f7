"""The target table: what it is keyed by, and whether a file's columns fit it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.limits import MAX_NAME_BYTES
from ddbload.errors import (
    BadHeader,
    ColumnNameTooLong,
    DuplicateColumn,
    EmptyColumnName,
    InvalidPayload,
    KeyColumnMissing,
    KeyTypeMismatch,
    UnknownColumn,
    UnsupportedKeyType,
)
from ddbload.items.item_layout import missing, shown
from ddbload.items.typed_values import attribute_type

KEY_TYPES = ("S", "N", "B")
NO_TABLE = Table(name="none", id="", keys=())
"""Stands where items are made for no table in particular: nothing is a key."""


def check_names(columns: Sequence[str]) -> None:
    """Raise when a column's name can be no attribute's, or stands twice."""
    seen: dict[str, int] = {}
    for place, name in enumerate(columns, 1):
        if not name:
            raise EmptyColumnName(
                f"column {place} has no name; name all columns with --columns, and say --header"
                " if the first row is to be skipped"
            )
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise BadHeader(f"the name of column {place} is no text that UTF-8 can hold") from None
        if size > MAX_NAME_BYTES:
            raise ColumnNameTooLong(f"the name of column {place} is longer than an attribute's")
        if name in seen:
            raise DuplicateColumn(
                f"columns {seen[name]} and {place} have the same name; one would overwrite the"
                " other: name all columns with --columns, and say --header"
            )
        seen[name] = place


def check_column_types(
    columns: Sequence[str],
    declared: Mapping[str, str],
    table: Table,
    inferred: Mapping[str, str] | None = None,
    gone: Collection[str] = (),
) -> tuple[str, ...]:
    """Each attribute's type: declared, or as keys of the table and indexes are, or inferred, or S.

    `columns`: the attributes, after what is renamed, dropped and set; `gone`: the file's columns.
    Raises `UnknownColumn`, `KeyColumnMissing`, `KeyTypeMismatch` and `UnsupportedKeyType`.
    """
    known = set(columns)
    for name in declared:
        if name not in known:
            raise UnknownColumn(
                f"a type is declared for {shown(name)}, which is {missing(name, columns, gone)}"
            )
    types = dict(declared)
    for key in table.keys:
        if key.name not in known:
            raise KeyColumnMissing(
                f"table {table.name} is keyed by {shown(key.name)}, which is"
                f" {missing(key.name, columns, gone)}"
            )
    for key in (*table.keys, *table.index_keys):
        if key.name not in known:
            continue
        if key.type not in KEY_TYPES:
            raise UnsupportedKeyType(
                f"{shown(key.name)} is a key of type {key.type} in table {table.name}; from text"
                f" ddbload makes keys of type {', '.join(KEY_TYPES)}"
            )
        _require_type(types.setdefault(key.name, key.type), key, table)
    return tuple(types.get(name) or (inferred or {}).get(name, "S") for name in columns)


def check_document_types(declared: Mapping[str, str], table: Table) -> None:
    """Raise `KeyTypeMismatch` where a declared type is not the one of a key."""
    for key in (*table.keys, *table.index_keys):
        if key.name in declared:
            _require_type(declared[key.name], key, table)


def _require_type(declared: str, key: KeyAttribute, table: Table) -> None:
    if attribute_type(declared) != key.type:
        raise KeyTypeMismatch(
            f"{shown(key.name)} is declared {declared}, and is a key of type {key.type} in table"
            f" {table.name} or one of its indexes"
        )


def check_position(name: str | None, columns: Sequence[str], table: Table) -> None:
    """Raise `InvalidPayload` where positions cannot be kept in an attribute of that name."""
    if name is None:
        return
    use = (
        f"the position attribute ('options.position_attribute', --position-attribute) is"
        f" {shown(name)}, which"
    )
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidPayload(f"{use} is longer than an attribute's name may be")
    if name in columns:
        raise InvalidPayload(f"{use} is a column of the file: name an attribute of its own")
    keys = [key for key in (*table.keys, *table.index_keys) if key.name == name]
    if keys:
        raise InvalidPayload(
            f"{use} is a key attribute of table {table.name} or of one of its indexes: name an"
            " attribute of its own"
        )
