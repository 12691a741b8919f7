"""Builds the item of one line of JSON, with every rule and the reason for each reject.

A line is an item itself, an item in an envelope (`{"Item": ...}`), or a change from an incremental
export. Values are plain JSON, or say their types as in DynamoDB JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ddbload.contracts.column_mapping import ColumnChanges
from ddbload.contracts.comparisons import Comparison
from ddbload.contracts.payload import OMIT, attribute_type
from ddbload.contracts.run_record import Table
from ddbload.dynamodb.attribute_values import (
    VALUE_TYPES,
    Attributes,
    AttributeValue,
    check_name,
    check_value,
)
from ddbload.dynamodb.modes import PUT, RowWrites, WriteMode, position
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.item_requests import NO_NEEDS, Item, ItemChecker
from ddbload.items.json_values import Json, Members, attribute, members_by_name, parse, plain
from ddbload.items.row_attributes import REFUSED, text_reader
from ddbload.items.row_filter import Test, document_filter
from ddbload.records import Record
from ddbload.rows.blocks import Defect
from ddbload.rows.file_signatures import bad_byte

_REQUESTS = {"PutRequest": "Item", "DeleteRequest": "Key"}
"""Members of requests in a BatchWriteItem."""
MAX_VALUES = 1_000_000
"""Most commas in a row. In an item of 400 KB each value takes a byte at least, and an export line
has two images of it; to parse a row with more would take hundreds of megabytes."""

_INCREMENT = frozenset({"Metadata", "Keys", "OldImage", "NewImage"})


class Composed(str):
    """Text of a template, or of a row's position: never a null marker, and empty for no value."""

    __slots__ = ()


DocumentRow = tuple[Members, bool]
"""Attributes of a line, and whether they are the key of an item that was deleted."""


def bare(members: Members) -> DocumentRow:
    """Take a line as the item itself."""
    return members, False


def item_line(members: Members) -> DocumentRow:
    """Take a line of a full export, a request of batch-write-item, or the item itself.

    These are `{"Item": {...}}`, `{"PutRequest": {"Item": {...}}}`, and a DeleteRequest with a Key.
    """
    if len(members) == 1:
        ((name, content),) = members
        # {"Item": {"S": "text"}} is an item with one attribute named Item.
        if name == "Item" and isinstance(content, tuple) and not _is_value(content):
            return content, False
        part = _REQUESTS.get(name)
        if part is not None and isinstance(content, tuple) and len(content) == 1:
            ((inner, value),) = content
            if inner == part and isinstance(value, tuple) and not _is_value(value):
                return value, part == "Key"
    return members, False


def export_line(members: Members) -> DocumentRow:
    """Take a line of a full or an incremental export. Raises `BadValue`.

    A line without a new image says that the item was deleted.
    """
    if len(members) == 1 and members[0][0] == "Item":
        return _object(members[0][1], "Item"), False
    parts = members_by_name(members)
    if "Keys" not in parts or not parts.keys() <= _INCREMENT:
        raise BadValue(
            "bad_export",
            "not a line of a DynamoDB export: those have an Item; or Metadata, Keys, and a"
            " NewImage unless the item was deleted",
        )
    if "NewImage" not in parts:
        return _object(parts["Keys"], "Keys"), True
    return _object(parts["NewImage"], "NewImage"), False


class DocumentRules(Record):
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
    def keeps_nulls(self) -> bool:
        """True if a null is a value like others."""
        return self.native and self.nulls == OMIT

    @property
    def declared(self) -> dict[str, str]:
        """Declared types of attributes, and those that the table declares for keys."""
        keys = () if self.native else (*self.table.index_keys, *self.table.keys)
        return {**{key.name: key.type for key in keys}, **self.types}


class DocumentBuilder(ItemChecker):
    """Builder of items for one table from lines of JSON."""

    def __init__(self, rules: DocumentRules) -> None:
        table, mode = rules.table, rules.mode
        # A deletion touches no index, so the limits of index keys do not apply.
        super().__init__(
            replace(table, index_keys=()) if mode.deletes else table, rules.writes or NO_NEEDS
        )
        self.rules = rules
        self.declared = rules.declared
        self.kept_names = {*self.key_names, *self.needs.condition_columns}
        """Attributes that are encoded in mode `delete`."""
        # A request with a condition deletes in mode `delete` only.
        self.deletes_listed = (
            mode.replaces and rules.writes is None and rules.envelope is export_line
        )
        """Whether a line may ask for the deletion of its item."""
        self.position_attribute = rules.position_attribute if mode.keeps_position else None
        self.changes_members = (
            not rules.changes.is_empty or mode.deletes or self.position_attribute is not None
        )
        """Whether the attributes of a row may be others than its members."""
        self.filter = document_filter(rules.where, rules.changes, self.declared)
        """Filter of the rows; None if all stay."""

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of a line that begins at `byte`. A defect names its attribute."""
        try:
            return self._build(data, byte)
        except UnicodeDecodeError as error:
            bad = data[error.start]
            return Defect("bad_encoding", bad_byte(bad, "UTF-8"))
        except BadValue as bad:
            return Defect(bad.cause, bad.detail, bad.column)

    def judge(self, members: Members) -> Defect | None:
        """Judge a row's members as `RowFilter.judge` does. Raises `BadValue`."""
        values = members_by_name(members)

        def read(test: Test) -> AttributeValue | None:
            value = values.get(test.comparison.column)
            if value is None:
                return None
            if isinstance(value, bytes) and test.kind == "S" and not self.rules.typed:
                return {"S": value.decode()}
            found = self._plain_or_typed(value)
            if "NULL" in found or found.get("S") in self.rules.markers:
                return None
            return found if found.get("S") == "" else convert_value(found, test.kind)

        return None if self.filter is None else self.filter.judge(read)

    def attribute_of(self, name: str, value: Json | BadValue) -> AttributeValue | None:
        """Return the attribute for a value in the row; None to leave it out. Raises `BadValue`."""
        if isinstance(value, BadValue):
            raise value
        return self.or_null(name, self._value_of(name, value))

    def or_null(self, name: str, value: AttributeValue | None = None) -> AttributeValue | None:
        """Return an attribute's value, or the one for a null. Raises `BadValue`."""
        if value is not None or name in self.key_names:
            return value
        null = self.null_of(name, self.declared.get(name, "S"), self.rules.nulls)
        if null is REFUSED:
            raise BadValue("null_value", "no value, and nulls are to be rejected")
        return null

    def _plain_or_typed(self, value: Json) -> AttributeValue:
        return check_value(plain(value)) if self.rules.typed else attribute(value)

    def _value_of(self, name: str, value: Json) -> AttributeValue | None:
        kind = self.declared.get(name)
        if isinstance(value, Composed):
            return convert_value({"S": str(value)}, kind) if value else None
        if value is None and not self.rules.typed:
            return None
        if isinstance(value, bytes) and kind == "S" and not self.rules.typed:
            # Text keeps any number; type N has limits.
            return {"S": value.decode()}
        found = self._plain_or_typed(value)
        if "NULL" in found:
            # In data of DynamoDB a null is a value like others, unless the run has a null policy.
            return found if self.rules.keeps_nulls else None
        return None if found.get("S") in self.rules.markers else convert_value(found, kind)

    def _build(self, data: bytes, byte: int) -> Item | Defect:
        if len(data) > MAX_VALUES and data.count(b",") > MAX_VALUES:
            return Defect("item_too_large", f"more than {MAX_VALUES} values; no item has as many")
        value = parse(data.decode())
        if not isinstance(value, tuple):
            hint = "; `jq -c '.[]'` makes rows of a list" if isinstance(value, list) else ""
            return Defect("not_an_object", f"JSON, and no object: a row is {{...}}{hint}")
        members, deleted = self.rules.envelope(value)
        if self.filter is not None:
            verdict = self.judge(members)
            if verdict is not None:
                return verdict
        deletes = self.rules.mode.deletes
        if deleted and not deletes and not self.deletes_listed:
            is_export = self.rules.envelope is export_line
            advice = "use mode " + ("put, without a condition" if is_export else "delete")
            detail = f"a deletion, and mode {self.rules.mode.name} deletes nothing; {advice}"
            return Defect("deletion", detail)
        # A conversion has no table, so no keys: any key of a deletion will do.
        keys = len(self.key_names) or len(members)
        at = position(self.rules.started, byte)
        attributes: Attributes = {}
        for name, source in self.changed(members, at, keys_only=deletes or deleted).items():
            try:
                value_or_null = self.attribute_of(name, source)
            except BadValue as bad:
                bad.column = name
                raise
            if value_or_null is not None:
                attributes[name] = value_or_null
        if deleted and self.rules.changes.is_empty and len(members) > keys:
            return Defect("bad_export", "Keys has other attributes than the table's keys")
        return self.item(attributes, deleted=deleted and not deletes)

    def changed(
        self, members: Members, at: str | None, *, keys_only: bool = False
    ) -> dict[str, Any]:
        """Return what a mapping and the mode make of a row's members. Raises `BadValue`.

        `at` is the row's position, for modes that keep it.
        """
        changes = self.rules.changes
        made: dict[str, Any] = {}
        seen: set[str] = set()
        for name, value in members:
            check_name(name)
            if name in seen:
                raise BadValue("duplicate_name", "the name stands twice in the row", name)
            seen.add(name)
            if name in changes.drop:
                continue
            to = changes.rename.get(name, name)
            if to in made and to not in changes.templates:
                raise BadValue("duplicate_name", "another name is renamed to this one", to)
            made[to] = value
        # An attribute set under a member's name takes that member's place in the order.
        made.update(dict.fromkeys(changes.templates))
        if keys_only:
            made = {name: value for name, value in made.items() if name in self.kept_names}
        values = dict(members)
        for name, template in changes.templates.items():
            if name not in made:
                continue
            template = template.named(values)
            try:
                texts = [self._part(values.get(part)) for part in template.names]
                made[name] = Composed(template.fill(texts))
            except BadValue as bad:
                # It is raised when the attribute is read, so that the first defect is reported.
                made[name] = bad
        if at is not None and self.position_attribute is not None:
            is_taken = made.pop(self.position_attribute, at) is not at
            detail = "the row has the position attribute itself"
            made[self.position_attribute] = (
                BadValue("duplicate_name", detail) if is_taken else Composed(at)
            )
        return made

    def _part(self, value: Json) -> str:
        """Return a value as text for a template; empty if it is missing. Raises `BadValue`."""
        if value is None:
            return ""
        if isinstance(value, bytes) and not self.rules.typed:
            return value.decode()
        ((kind, content),) = self._plain_or_typed(value).items()
        if kind == "NULL" or (kind == "S" and content in self.rules.markers):
            return ""
        if kind == "BOOL":
            return "true" if content else "false"
        if kind not in ("S", "N"):
            raise BadValue("wrong_type", f"composed of a value of type {kind}, which is no text")
        text: str = content
        return text


def convert_value(value: AttributeValue, kind: str | None) -> AttributeValue:
    """Convert a value to the declared type. Raises `BadValue`."""
    ((found, content),) = value.items()
    if kind is None or found == kind:
        return value
    if found in ("S", "N") and content:
        return text_reader(kind)(content)
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
