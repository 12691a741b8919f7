"""From a line of JSON to a DynamoDB item, or to the reason why there is none."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from ddbload.contracts.column_mapping import ColumnChanges, Template
from ddbload.contracts.payload import OMIT
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
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.dynamodb.write_modes import DELETE, LAST_WINS, PUT, position
from ddbload.items.item_builder import Item
from ddbload.items.json_values import (
    Json,
    Members,
    attribute,
    members_by_name,
    parse,
    plain,
)
from ddbload.items.typed_values import REFUSED, TEXT_READERS, attribute_type, null_of
from ddbload.rows.columns import to_octets
from ddbload.rows.reject_lines import Defect

MAX_VALUES = 1_000_000
"""Commas in a row. Of each an item of 400 KB has a byte at least, and an export has two images; a
row with more would take hundreds of megabytes to be read."""

_INCREMENT = frozenset({"Metadata", "Keys", "OldImage", "NewImage"})

Given = TypeVar("Given")


class DocumentRow(NamedTuple):
    """What a line says."""

    members: Members
    """Attributes, of an item or of a key."""
    deleted: bool = False
    """Whether they are the key of an item that is no more."""


def bare(members: Members) -> DocumentRow:
    """A line that is its item."""
    return DocumentRow(members)


def item_line(members: Members) -> DocumentRow:
    """A line of a full export, `{"Item": {...}}`, or one that is its item."""
    if len(members) == 1:
        ((name, content),) = members
        # Of an item whose one attribute is called so, this would be the value: {"S": "text"}.
        if name == "Item" and isinstance(content, tuple) and not _is_value(content):
            return DocumentRow(content)
    return DocumentRow(members)


def export_line(members: Members) -> DocumentRow:
    """A line of an export, full or incremental: what became of an item between two times.

    Raises `BadValue`.
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
    """What a run makes of documents."""

    table: Table
    types: Mapping[str, str] = field(default_factory=dict)
    """Declared ones, by attribute."""
    changes: ColumnChanges = field(default_factory=ColumnChanges)
    nulls: str = OMIT
    """What becomes of attributes without a value, one of `values.POLICIES`."""
    markers: frozenset[str] = frozenset()
    """Strings that are no value."""
    mode: str = PUT
    position_attribute: str | None = None
    """Where `last-wins` keeps positions."""
    started: float = 0.0
    """When the run began, in seconds since the epoch."""
    typed: bool = False
    """Whether values say their types, as in DynamoDB's JSON."""
    native: bool = False
    """Whether these types are DynamoDB's own: then a null is a value, and a key is what it is."""
    envelope: Callable[[Members], DocumentRow] = bare

    @property
    def meant(self) -> dict[str, str]:
        """The types that attributes are to have. Those of keys are the table's."""
        keys = () if self.native else (*self.table.index_keys, *self.table.keys)
        return {**{key.name: key.type for key in keys}, **self.types}


class AttributeDefect(Exception):
    """A defect of an attribute, with its name."""

    def __init__(self, name: str, bad: BadValue) -> None:
        super().__init__(bad.detail)
        self.defect = Defect(bad.cause, bad.detail, name)


class DocumentBuilder:
    """Makes items for one table out of lines of JSON."""

    def __init__(self, rules: DocumentRules) -> None:
        self.rules = rules
        table = rules.table
        self.meant = rules.meant
        self.key_names = [key.name for key in table.keys]
        self._indexed = {key.name for key in table.index_keys}
        # What is not there is in no index: their limits do not matter.
        kept = () if rules.mode == DELETE else table.index_keys
        self.checked_keys = [*table.keys, *kept]
        self.position_attribute = rules.position_attribute if rules.mode == LAST_WINS else None

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """The item of a line that begins at `byte`. A `Defect` names its attribute."""
        try:
            return self._build(data, byte)
        except UnicodeDecodeError as error:
            bad = data[error.start]
            return Defect("bad_encoding", f"byte 0x{bad:02X} is not UTF-8 here")
        except AttributeDefect as bad:
            return bad.defect
        except BadValue as bad:
            return Defect(bad.cause, bad.detail)

    def attribute_of(self, name: str, value: Json) -> AttributeValue | None:
        """An attribute, of its value in the row. None where there is none. Raises `BadValue`."""
        return self._or_null(name, self._value_of(name, value))

    def composed(
        self, name: str, template: Template, values: Mapping[str, Json]
    ) -> AttributeValue | None:
        """An attribute, of a template and a row's values. Raises `BadValue`."""
        text = template.fill([self._part(values.get(part)) for part in template.names])
        found = convert_members({"S": text}, self.meant.get(name)) if text else None
        return self._or_null(name, found)

    def check_key(self, name: str, value: AttributeValue) -> None:
        """Raise `BadValue` where an attribute is a key, and no such value can be."""
        for key in self.checked_keys:
            if key.name == name:
                check_key(key, value)

    def _or_null(self, name: str, value: AttributeValue | None) -> AttributeValue | None:
        if value is not None or name in self.key_names:
            return value
        null = null_of(self.meant.get(name, "S"), self.rules.nulls, name in self._indexed)
        if null is REFUSED:
            raise BadValue("null_value", "no value, and nulls are to be rejected")
        return None if null is None else null.attribute

    def _value_of(self, name: str, value: Json) -> AttributeValue | None:
        if self.rules.typed:
            found = check_value(plain_within(value))
            if "NULL" in found:
                return self._null_of_typed()
        elif value is None:
            return None
        elif isinstance(value, bytes) and self.meant.get(name) == "S":
            # Text takes any number, DynamoDB's numbers do not.
            return {"S": value.decode()}
        else:
            found = attribute(value)
        if self.rules.markers and found.get("S") in self.rules.markers:
            return None
        return convert_members(found, self.meant.get(name))

    def _null_of_typed(self) -> AttributeValue | None:
        # There it is a value like others, unless the run says what else it is to be.
        return {"NULL": True} if self.rules.native and self.rules.nulls == OMIT else None

    def _build(self, data: bytes, byte: int) -> Item | Defect:
        if len(data) > MAX_VALUES and data.count(b",") > MAX_VALUES:
            return Defect("item_too_large", f"more than {MAX_VALUES} values; no item has as many")
        value = parse(data.decode())
        if not isinstance(value, tuple):
            hint = "; `jq -c '.[]'` makes rows of a list" if isinstance(value, list) else ""
            return Defect("not_an_object", f"JSON, and no object: a row is {{...}}{hint}")
        row = self.rules.envelope(value)
        deletes = self.rules.mode == DELETE
        if row.deleted and not deletes and self.rules.mode != PUT:
            return Defect(
                "deletion", f"a deletion, and mode {self.rules.mode} deletes nothing; use mode put"
            )
        attributes = self._attributes(row.members, keys_only=deletes or row.deleted)
        # Without a table nothing is a key, and it is for others to say what becomes of deletions.
        keys = len(self.key_names) or len(row.members)
        if row.deleted and self.rules.changes.none and len(row.members) > keys:
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
            if keys_only and name not in self.key_names:
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
        """What each attribute is made of. Raises `BadValue` and `Misnamed`."""
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
        """A value as a part of a text; empty where there is none."""
        if value is None:
            return ""
        if isinstance(value, bytes) and not self.rules.typed:
            return value.decode()
        ((kind, content),) = (
            check_value(plain_within(value)) if self.rules.typed else attribute(value)
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
        for key in self.checked_keys:
            if key.name in attributes:
                try:
                    check_key(key, attributes[key.name])
                except BadValue as bad:
                    raise AttributeDefect(key.name, bad) from None
        size = item_size(attributes)
        if size > MAX_ITEM_BYTES:
            return Defect("item_too_large", f"{size} bytes; DynamoDB's limit is {MAX_ITEM_BYTES}")
        key_values = tuple(identity(attributes[name]) for name in self.key_names)
        wire_bytes = len(json.dumps(attributes)) + 40
        return Item(attributes, key_values, size, wire_bytes, deleted=deleted)


def check_key(key: KeyAttribute, value: AttributeValue) -> None:
    """Raise `BadValue` for what DynamoDB does not take as a key, of a table or of an index."""
    ((kind, content),) = value.items()
    if kind != key.type:
        raise BadValue("wrong_type", f"of type {kind}; the key attribute is of {key.type}")
    if not content:
        raise BadValue("empty_key", "the key attribute is empty")
    size = value_size(value) if kind != "N" else 0
    if size > key.max_bytes:
        raise BadValue("key_too_long", f"{size} bytes; a key here takes {key.max_bytes}")


def identity(value: AttributeValue) -> Hashable:
    """The same for values that are one key to DynamoDB, within their type."""
    ((kind, content),) = value.items()
    text: str = content
    return parse_number(text).value if kind == "N" else to_octets(text)


def plain_within(value: Json) -> object:
    """What `checked` takes, of nothing that is nested deeper than it would have it.

    Raises `BadValue`.
    """
    try:
        return plain(value)
    except RecursionError:
        raise nesting_error() from None


def convert_members(value: AttributeValue, kind: str | None) -> AttributeValue:
    """A value as the type that is declared for it has it. Raises `BadValue`."""
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
