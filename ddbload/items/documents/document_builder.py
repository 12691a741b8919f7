"""Builds the item of one line of JSON, with every rule and the reason for each reject.

A line is an item itself, an item in an envelope (`{"Item": ...}`), or a change from an incremental
export. Values are plain JSON, or say their types as in DynamoDB JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from ddbload.contracts.column_mapping import ColumnChanges, Template
from ddbload.contracts.payload import OMIT, Comparison
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.attribute_values import (
    VALUE_TYPES,
    Attributes,
    AttributeValue,
    check_name,
    check_value,
    item_size,
    nesting_error,
    value_size,
)
from ddbload.dynamodb.limits import MAX_ITEM_BYTES
from ddbload.dynamodb.modes import PUT, WriteMode, position
from ddbload.dynamodb.row_writes import REMOVAL, SETS, RowWrites, without_removals
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.items.item_builder import Item, item_too_large, no_condition_value, row_needs
from ddbload.items.json_values import (
    Json,
    Members,
    attribute,
    members_by_name,
    parse,
    plain,
)
from ddbload.items.row_filter import FILTERED, DocumentFilter, UncomparableError
from ddbload.items.typed_values import REFUSED, TEXT_READERS, attribute_type, null_of
from ddbload.rows.blocks import Defect
from ddbload.rows.columns import to_octets
from ddbload.rows.file_signatures import bad_byte

MAX_VALUES = 1_000_000
"""Most commas in a row. In an item of 400 KB each value takes a byte at least, and an export line
has two images of it; to parse a row with more would take hundreds of megabytes."""

_INCREMENT = frozenset({"Metadata", "Keys", "OldImage", "NewImage"})

Given = TypeVar("Given")


class DocumentRow(NamedTuple):
    """Attributes of a line, of an item or of a key."""

    members: Members
    """Attributes, of an item or of a key."""
    deleted: bool = False
    """True if they are the key of an item that was deleted."""


def bare(members: Members) -> DocumentRow:
    """Take a line as the item itself."""
    return DocumentRow(members)


def item_line(members: Members) -> DocumentRow:
    """Take a line of a full export, `{"Item": {...}}`, or one that is the item itself."""
    if len(members) == 1:
        ((name, content),) = members
        # {"Item": {"S": "text"}} is an item with one attribute named Item.
        if name == "Item" and isinstance(content, tuple) and not _is_value(content):
            return DocumentRow(content)
    return DocumentRow(members)


def export_line(members: Members) -> DocumentRow:
    """Take a line of a full or an incremental export. Raises `BadValue`.

    A line without a new image says that the item was deleted.
    """
    if len(members) == 1 and members[0][0] == "Item":
        return DocumentRow(_object(members[0][1], "Item"))
    parts = members_by_name(members)
    if "Keys" not in parts or not parts.keys() <= _INCREMENT:
        raise BadValue(
            "bad_export",
            "not a line of a DynamoDB export: those have an Item; or Metadata, Keys, and a"
            " NewImage unless the item was deleted",
        )
    if "NewImage" not in parts:
        return DocumentRow(_object(parts["Keys"], "Keys"), deleted=True)
    return DocumentRow(_object(parts["NewImage"], "NewImage"))


@dataclass(frozen=True, slots=True)
class DocumentRules:
    """Settings of a run that decide how its lines become items."""

    table: Table
    types: Mapping[str, str] = field(default_factory=dict)
    """Declared types, by attribute."""
    changes: ColumnChanges = field(default_factory=ColumnChanges)
    where: tuple[Comparison, ...] = ()
    """Comparisons that an item must match."""
    nulls: str = OMIT
    """Policy for attributes without a value, one of `NULL_POLICIES`."""
    markers: frozenset[str] = frozenset()
    """Strings that stand for null."""
    mode: WriteMode = PUT
    position_attribute: str | None = None
    """Attribute in which mode `last-wins` stores each row's position."""
    started: float = 0.0
    """Start of the run, in seconds since 1970."""
    typed: bool = False
    """True if values say their types, as in DynamoDB JSON."""
    native: bool = False
    """True if these types come from DynamoDB: then a null is a value, and keys keep their types."""
    envelope: Callable[[Members], DocumentRow] = bare
    writes: RowWrites | None = None
    """Rules of rows that go one by one."""

    @property
    def declared(self) -> dict[str, str]:
        """Declared types of attributes, and those that the table declares for keys."""
        keys = () if self.native else (*self.table.index_keys, *self.table.keys)
        return {**{key.name: key.type for key in keys}, **self.types}


class AttributeDefect(Exception):
    """Defect of an attribute whose name is known."""

    def __init__(self, name: str, bad: BadValue) -> None:
        super().__init__(bad.detail)
        self.defect = Defect(bad.cause, bad.detail, name)


class DocumentBuilder:
    """Builder of items for one table from lines of JSON."""

    def __init__(self, rules: DocumentRules) -> None:
        self.rules = rules
        table = rules.table
        self.declared = rules.declared
        self.key_names = [key.name for key in table.keys]
        self.needs = row_needs(rules.writes)
        self.kept_names = {*self.key_names, *self.needs.values}
        """Attributes that are encoded in mode `delete`."""
        # A request with a condition deletes in mode `delete` only.
        self.deletes_listed = rules.mode.replaces and rules.writes is None
        """Whether a line may ask for the deletion of its item."""
        self._indexed = {key.name for key in table.index_keys}
        # A deletion touches no index, so the limits of index keys do not apply.
        kept = () if rules.mode.deletes else table.index_keys
        self.checked_keys = [*table.keys, *kept]
        self.position_attribute = rules.position_attribute if rules.mode.keeps_position else None
        self.filter = (
            DocumentFilter(rules.where, rules.changes, self.declared) if rules.where else None
        )
        """Filter of the rows; None if all stay."""

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of a line that begins at `byte`. A defect names its attribute."""
        try:
            return self._build(data, byte)
        except UnicodeDecodeError as error:
            bad = data[error.start]
            return Defect("bad_encoding", bad_byte(bad, "UTF-8"))
        except AttributeDefect as bad:
            return bad.defect
        except BadValue as bad:
            return Defect(bad.cause, bad.detail)

    def is_kept(self, members: Members) -> bool | None:
        """Return whether `where` keeps a line; None if it has to be built to tell."""
        values: dict[str, Json] = {}
        try:
            row = self.rules.envelope(members)
            values = dict(row.members)
            if len(values) == len(row.members):
                return self._passes(values)
        except (BadValue, UncomparableError):
            pass
        return None

    def _passes(self, values: Mapping[str, Json]) -> bool:
        def read(name: str, kind: str | None) -> AttributeValue | None:
            value = values.get(name)
            return None if value is None else self._compared(value, kind)

        return self.filter is None or self.filter.is_kept(read)

    def attribute_of(self, name: str, value: Json) -> AttributeValue | None:
        """Return the attribute for a value in the row; None to leave it out. Raises `BadValue`."""
        return self._or_null(name, self._value_of(name, value))

    def composed(
        self, name: str, template: Template, values: Mapping[str, Json]
    ) -> AttributeValue | None:
        """Return the attribute for a template and a row's values. Raises `BadValue`."""
        template = template.named(values)
        text = template.fill([self._part(values.get(part)) for part in template.names])
        found = convert_value({"S": text}, self.declared.get(name)) if text else None
        return self._or_null(name, found)

    def check_key(self, name: str, value: AttributeValue) -> None:
        """Raise `BadValue` if an attribute is a key, and DynamoDB refuses such a value for it."""
        for key in self.checked_keys:
            if key.name == name and value != REMOVAL:
                check_key(key, value)

    def is_suitable(self, item: Attributes) -> bool:
        """Return whether an item has what the run's requests need."""
        return self.needs.values <= item.keys() and all(
            not SETS.isdisjoint(item[name]) for name in self.needs.sets if name in item
        )

    def _or_null(self, name: str, value: AttributeValue | None) -> AttributeValue | None:
        if value is not None or name in self.key_names:
            return value
        policy = self.needs.policy(name, self.rules.nulls)
        null = null_of(self.declared.get(name, "S"), policy, name in self._indexed)
        if null is REFUSED:
            raise BadValue("null_value", "no value, and nulls are to be rejected")
        return None if null is None else null.attribute

    def _value_of(self, name: str, value: Json) -> AttributeValue | None:
        kind = self.declared.get(name)
        if self.rules.typed:
            found = check_value(plain_json(value))
            if "NULL" in found:
                return self._null_of_typed()
        elif value is None:
            return None
        elif isinstance(value, bytes) and kind == "S":
            # Text keeps any number; type N has limits.
            return {"S": value.decode()}
        else:
            found = attribute(value)
        if self.rules.markers and found.get("S") in self.rules.markers:
            return None
        return convert_value(found, kind)

    def _compared(self, value: Json, kind: str | None) -> AttributeValue | None:
        """Return a value as `where` compares it; None for a null. Raises `BadValue`."""
        if self.rules.typed:
            found = check_value(plain_json(value))
        elif isinstance(value, bytes) and kind == "S":
            return {"S": value.decode()}
        else:
            found = attribute(value)
        if "NULL" in found or (self.rules.markers and found.get("S") in self.rules.markers):
            return None
        return found if found.get("S") == "" else convert_value(found, kind)

    def _null_of_typed(self) -> AttributeValue | None:
        # In data of DynamoDB a null is a value like others, unless the run has a null policy.
        return {"NULL": True} if self.rules.native and self.rules.nulls == OMIT else None

    def _build(self, data: bytes, byte: int) -> Item | Defect:
        if len(data) > MAX_VALUES and data.count(b",") > MAX_VALUES:
            return Defect("item_too_large", f"more than {MAX_VALUES} values; no item has as many")
        value = parse(data.decode())
        if not isinstance(value, tuple):
            hint = "; `jq -c '.[]'` makes rows of a list" if isinstance(value, list) else ""
            return Defect("not_an_object", f"JSON, and no object: a row is {{...}}{hint}")
        row = self.rules.envelope(value)
        if self.filter is not None:
            try:
                if not self._passes(members_by_name(row.members)):
                    return FILTERED
            except UncomparableError as bad:
                raise AttributeDefect(bad.name, bad.bad) from None
        deletes = self.rules.mode.deletes
        if row.deleted and not deletes and not self.deletes_listed:
            return Defect(
                "deletion",
                f"a deletion, and mode {self.rules.mode.name} deletes nothing; use mode put,"
                " without a condition",
            )
        attributes = self._attributes(row.members, keys_only=deletes or row.deleted)
        # A conversion has no table, so no keys: any key of a deletion will do.
        keys = len(self.key_names) or len(row.members)
        if row.deleted and self.rules.changes.is_empty and len(row.members) > keys:
            return Defect("bad_export", "Keys has other attributes than the table's keys")
        if self.position_attribute is not None:
            if self.position_attribute in attributes:
                return Defect(
                    "duplicate_name",
                    "the row has the position attribute itself",
                    self.position_attribute,
                )
            attributes[self.position_attribute] = {"S": position(self.rules.started, byte)}
        return self._item(attributes, deleted=row.deleted and not deletes)

    def _attributes(self, members: Members, *, keys_only: bool) -> Attributes:
        values = dict(members)
        made: Attributes = {}
        for name, source in self.sources(members).items():
            if keys_only and name not in self.kept_names:
                continue
            try:
                value = (
                    self.composed(name, source, values)
                    if isinstance(source, Template)
                    else self.attribute_of(name, source)
                )
            except BadValue as bad:
                raise AttributeDefect(name, bad) from None
            if value is not None:
                made[name] = value
        return made

    def sources(self, members: Iterable[tuple[str, Given]]) -> dict[str, Given | Template]:
        """Return the value or the template for each attribute.

        Raises `BadValue` and `AttributeDefect`.
        """
        changes = self.rules.changes
        sources: dict[str, Given | Template] = {}
        seen: set[str] = set()
        for name, value in members:
            check_name(name)
            if name in seen:
                bad = BadValue("duplicate_name", "the name stands twice in the row")
                raise AttributeDefect(name, bad)
            seen.add(name)
            if name in changes.drop:
                continue
            to = changes.rename.get(name, name)
            if to in sources and to not in changes.templates:
                bad = BadValue("duplicate_name", "another name is renamed to this one")
                raise AttributeDefect(to, bad)
            sources[to] = changes.templates.get(to, value)
        for name, template in changes.templates.items():
            sources.setdefault(name, template)
        return sources

    def _part(self, value: Json) -> str:
        """Return a value as text for a template; empty if it is missing. Raises `BadValue`."""
        if value is None:
            return ""
        if isinstance(value, bytes) and not self.rules.typed:
            return value.decode()
        ((kind, content),) = (
            check_value(plain_json(value)) if self.rules.typed else attribute(value)
        ).items()
        if kind == "NULL" or (kind == "S" and content in self.rules.markers):
            return ""
        if kind == "BOOL":
            return "true" if content else "false"
        if kind not in ("S", "N"):
            raise BadValue("wrong_type", f"composed of a value of type {kind}, which is no text")
        text: str = content
        return text

    def _item(self, attributes: Attributes, *, deleted: bool) -> Item | Defect:
        for name in self.key_names:
            if name not in attributes:
                return Defect("empty_key", "the key attribute is missing, or null", name)
        for name in sorted(self.needs.values):
            if attributes.get(name, REMOVAL) == REMOVAL:
                return no_condition_value(name)
        for name in self.needs.sets & attributes.keys():
            ((kind, _),) = attributes[name].items()
            if kind == "NULL":
                del attributes[name]
            elif kind not in SETS:
                return Defect("not_a_set", f"of type {kind}, and only sets can be added to", name)
        for key in self.checked_keys:
            if attributes.get(key.name, REMOVAL) != REMOVAL:
                try:
                    check_key(key, attributes[key.name])
                except BadValue as bad:
                    raise AttributeDefect(key.name, bad) from None
        written = without_removals(attributes) if self.rules.writes else attributes
        for name in self.needs.unwritten:
            written.pop(name, None)
        size = item_size(written)
        if size > MAX_ITEM_BYTES:
            return item_too_large(size)
        key_values = tuple(identity(attributes[name]) for name in self.key_names)
        wire_bytes = len(json.dumps(attributes)) + 40
        return Item(attributes, key_values, size, wire_bytes, deleted=deleted)


def check_key(key: KeyAttribute, value: AttributeValue) -> None:
    """Raise `BadValue` if DynamoDB refuses a value as a key of the table or of an index."""
    ((kind, content),) = value.items()
    if kind != key.type:
        raise BadValue("wrong_type", f"of type {kind}; the key attribute is of {key.type}")
    if not content:
        raise BadValue("empty_key", "the key attribute is empty")
    size = value_size(value) if kind != "N" else 0
    if size > key.max_bytes:
        raise BadValue("key_too_long", f"{size} bytes; a key here takes {key.max_bytes}")


def identity(value: AttributeValue) -> Hashable:
    """Return an identity that is equal for equal keys, within a type."""
    ((kind, content),) = value.items()
    text: str = content
    return parse_number(text).value if kind == "N" else to_octets(text)


def plain_json(value: Json) -> object:
    """Return parsed JSON with objects as `dict`. Raises `BadValue`, for too deep a nesting, too."""
    try:
        return plain(value)
    except RecursionError:
        raise nesting_error() from None


def convert_value(value: AttributeValue, kind: str | None) -> AttributeValue:
    """Convert a value to the declared type. Raises `BadValue`."""
    ((found, content),) = value.items()
    if kind is None or found == kind:
        return value
    if found in ("S", "N") and content:
        return TEXT_READERS[kind](content).attribute
    if found == "L" and kind in ("SS", "NS", "BS"):
        return check_value({kind: _members(content, kind)})
    raise BadValue("wrong_type", f"of type {found}, and to be {attribute_type(kind)}")


def _members(members: Sequence[AttributeValue], kind: str) -> list[str]:
    taken = ("S", "N") if kind == "NS" else ("S",)
    found = [next(iter(member.items())) for member in members]
    if not all(its in taken for its, _ in found):
        raise BadValue("not_a_set", f"a list, and one of its members is none of a set {kind}")
    return [text for _, text in found]


def _is_value(content: Members) -> bool:
    return (
        len(content) == 1 and content[0][0] in VALUE_TYPES and not isinstance(content[0][1], tuple)
    )


def _object(content: Json, name: str) -> Members:
    if not isinstance(content, tuple):
        raise BadValue("bad_export", f"{name} is to be an object of attributes")
    return content
