"""Items of rows with every rule and the reason for each reject, and the JSON of their requests.

`ItemBuilder` builds the item of one row of cells. A row that goes in a BatchWriteItem is encoded as
the text of its request. Any other operation needs names and values apart: such a row is its
attribute names and the JSON of each value. Joiners make the bodies of calls. All JSON is kept as
octets.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from json import JSONEncoder
from json.encoder import encode_basestring as quoted
from operator import itemgetter
from typing import Any

from ddbload.contracts.payload import OMIT, REJECT
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.attribute_values import Attributes, AttributeValue, item_size, value_size
from ddbload.dynamodb.limits import MAX_ITEM_BYTES
from ddbload.dynamodb.modes import (
    PUT,
    REMOVAL,
    SETS,
    Condition,
    Deletion,
    RowWrites,
    WriteMode,
    insert_statement,
    without_removals,
)
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.items.row_attributes import REFUSED, null_of, text_reader
from ddbload.records import Record
from ddbload.rows.blocks import Defect, field_count
from ddbload.rows.columns import from_octets, to_octets

NO_NEEDS = RowWrites(PUT, "", ())
"""Rules of rows that need nothing but their keys."""


def no_condition_value(column: int | str) -> Defect:
    """Return the defect of a row without a value that the condition names."""
    return Defect("no_condition_value", "no value, and the condition names it", column)


class Item(Record):
    """An item that DynamoDB accepts."""

    attributes: Attributes
    key: tuple[Hashable, ...]
    """Equal for items that DynamoDB keeps under one key: numbers by value, text as octets."""
    size: int
    """Item size as DynamoDB counts it: UTF-8 bytes of names and values."""
    wire_bytes: int
    """Upper bound for the bytes of the item's JSON in a request."""
    deleted: bool = False
    """True if the attributes are the key of an item to delete, as an export may ask for."""


class ItemChecker:
    """Checks that every item has to pass, whatever its row was."""

    def __init__(self, table: Table, needs: RowWrites) -> None:
        self.needs = needs
        self.key_names = [key.name for key in table.keys]
        self.checked_keys = [*table.keys, *table.index_keys]
        """Keys of the table and of its indexes."""
        self._indexed = {key.name for key in table.index_keys}

    def null_of(self, name: str, kind: str, nulls: str) -> AttributeValue | None:
        """Return the value of a missing attribute: None to leave it out, or `REFUSED`."""
        is_needed = name in self.needs.adds or name in self.needs.condition_columns
        policy = OMIT if is_needed and nulls != REJECT else nulls
        return null_of(kind, policy, name in self._indexed)

    def check_key(self, name: str, value: AttributeValue) -> None:
        """Raise `BadValue` if an attribute is a key, and DynamoDB refuses such a value for it."""
        for key in self.checked_keys:
            if key.name == name:
                _check_key(key, value)

    def item(self, attributes: Attributes, *, deleted: bool = False) -> Item | Defect:
        """Return the item with these attributes, of which each is a legal value."""
        for name in self.key_names:
            if name not in attributes:
                return Defect("empty_key", "the key attribute is missing, or null", name)
        for name in sorted(self.needs.condition_columns):
            if attributes.get(name, REMOVAL) == REMOVAL:
                return no_condition_value(name)
        for name in self.needs.adds & attributes.keys():
            if "NULL" in attributes[name]:
                del attributes[name]
            elif SETS.isdisjoint(attributes[name]):
                ((kind, _),) = attributes[name].items()
                return Defect("not_a_set", f"of type {kind}, and only sets can be added to", name)
        for key in self.checked_keys:
            try:
                _check_key(key, attributes.get(key.name, REMOVAL))
            except BadValue as bad:
                return Defect(bad.cause, bad.detail, key.name)
        written = without_removals(attributes)
        for name in self.needs.unwritten:
            written.pop(name, None)
        size = item_size(written)
        if size > MAX_ITEM_BYTES:
            return Defect("item_too_large", f"{size} bytes; DynamoDB's limit is {MAX_ITEM_BYTES}")
        key_values = tuple(identity(attributes[name]) for name in self.key_names)
        return Item(attributes, key_values, size, len(json.dumps(attributes)) + 40, deleted)


class ItemBuilder:
    """Builder of items for one table from rows with the same attributes."""

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str],
        table: Table,
        nulls: str = OMIT,
        needs: RowWrites = NO_NEEDS,
    ) -> None:
        """Take one type for each column, and the policy for missing values."""
        self._checker = checker = ItemChecker(table, needs)
        self.columns = [
            (name, text_reader(kind), checker.null_of(name, kind, nulls))
            for name, kind in zip(columns, types, strict=True)
        ]
        """Name of each column, reader of its cells, and value of its empty ones."""
        self.keys = [columns.index(name) for name in checker.key_names]
        self.limits = key_limits(columns, table)
        self.binary_limits = dict(key_limits(columns, table, "B"))

    def build(self, fields: Sequence[str]) -> Item | Defect:
        """Build the item of a row: an empty cell is a missing value. A defect names its column."""
        if len(fields) != len(self.columns):
            return field_count(len(fields), len(self.columns))
        for column in self.keys:
            if not fields[column]:
                return Defect("empty_key", "the key attribute is empty", column)
        for column, most in self.limits:
            size = len(fields[column].encode())
            if size > most:
                return _key_too_long(size, most, column)
        attributes: Attributes = {}
        for column, (text, (name, read, null)) in enumerate(zip(fields, self.columns, strict=True)):
            value, limit = null, self.binary_limits.get(column)
            if text:
                try:
                    value = read(text)
                except BadValue as bad:
                    return Defect(bad.cause, bad.detail, column)
                if limit is not None and value_size(value) > limit:
                    return _key_too_long(value_size(value), limit, column)
            elif name in self._checker.needs.condition_columns:
                return no_condition_value(column)
            elif null is REFUSED:
                return Defect("null_value", "no value, and nulls are to be rejected", column)
            if value is not None:
                attributes[name] = value
        return self._checker.item(attributes)


def _key_too_long(size: int, most: int, column: int) -> Defect:
    return Defect("key_too_long", f"{size} bytes; a key here takes {most}", column)


def key_limits(columns: Sequence[str], table: Table, kind: str = "S") -> list[tuple[int, int]]:
    """Return the key columns of a type, of the table and its indexes, with their size limits."""
    limits: dict[str, int] = {}
    for key in (*table.keys, *table.index_keys):
        if key.type == kind and key.name in columns:
            limits[key.name] = min(key.max_bytes, limits.get(key.name, key.max_bytes))
    return [(columns.index(name), most) for name, most in limits.items()]


def _check_key(key: KeyAttribute, value: Mapping[str, str]) -> None:
    """Raise `BadValue` if DynamoDB refuses a value as a key of the table or of an index."""
    if value == REMOVAL:
        return
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


NamedValues = tuple[tuple[str, ...], tuple[str, ...]]
"""Attribute names of a row, and the JSON of their values in octets."""
Request = str | NamedValues
"""Encoded row: the text of its request in a BatchWriteItem, or its names and values."""

PUT_BEGIN, PUT_END = '{"PutRequest":{"Item":{', "}}}"
LINE_BEGIN, LINE_END = '{"Item":{', "}}\n"
"""JSON around the attributes of an item in a file of items."""
_ATTRIBUTES = slice(len(PUT_BEGIN), -len(PUT_END))
"""Slice of an item's attributes in the request that puts it."""
CONSUMED_CAPACITY = ',"ReturnConsumedCapacity":"TOTAL"}'
"""End of each body."""
MAX_FORMS = 1000
"""Most forms of a request that are kept, one for each set of attribute names."""

compact_json = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Encoder without blanks. `json.dumps` with these arguments makes a new one in each call."""
REMOVAL_JSON = compact_json(REMOVAL)


def put_request(item: Attributes) -> str:
    """Return the request that puts an item, in octets."""
    return to_octets(compact_json({"PutRequest": {"Item": item}}))


def named_values(item: Attributes) -> NamedValues:
    """Return the names of an item, and the JSON of their values in octets."""
    return tuple(item), tuple([to_octets(compact_json(value)) for value in item.values()])


def item_of_request(request: Request) -> Attributes:
    """Return the item of an encoded row, or the key that it deletes as a `Deletion`."""
    if not isinstance(request, str):
        names, values = request
        return dict(zip(names, json.loads(from_octets(f"[{','.join(values)}]")), strict=True))
    ((verb, content),) = json.loads(from_octets(request)).items()
    ((_, item),) = content.items()
    attributes: Attributes = item
    return Deletion(attributes) if verb == "DeleteRequest" else attributes


class Joiner(ABC):
    """Joiner of encoded rows into the bodies of an operation's calls."""

    joins_text = False
    """True if rows are encoded as texts, False if as names and values."""

    def fits(self, names: Iterable[str]) -> bool:  # noqa: ARG002 - see InsertJoiner
        """Return whether a row with these attributes can be sent with others."""
        return True

    def request(self, item: Item) -> Request:
        """Encode an item."""
        return named_values(item.attributes)

    @abstractmethod
    def body(self, requests: Sequence[Any]) -> bytes:
        """Make the body of the call that writes these rows."""


class BatchJoiner(Joiner):
    """Joiner of requests into bodies of BatchWriteItem, which puts items or deletes keys."""

    joins_text = True

    def __init__(self, table: str, *, deletes: bool = False) -> None:
        """Take the table, and whether to delete the keys that are encoded as items to put."""
        self._prefix = to_octets(f'{{"RequestItems":{{{quoted(table)}:[')
        self._deletes = deletes

    def request(self, item: Item) -> Request:
        """Encode an item, or for a deletion its key."""
        if item.deleted:
            return to_octets(compact_json({"DeleteRequest": {"Key": item.attributes}}))
        return put_request(item.attributes)

    def body(self, requests: Sequence[Any]) -> bytes:
        """Make the body of the call that writes rows."""
        if self._deletes:
            requests = [f'{{"DeleteRequest":{{"Key":{{{put[_ATTRIBUTES]}}}}}}}' for put in requests]
        return f"{self._prefix}{','.join(requests)}]}}{CONSUMED_CAPACITY}".encode("latin-1")


class RowJoiner(Joiner):
    """Joiner of names and values into the bodies of a call that writes one row.

    Rows with the same names share a form, which has a `%s` for each value.
    """

    def __init__(self, writes: RowWrites) -> None:
        self._writes = writes
        # By the names of a row, and the places of the values to remove.
        self._form = lru_cache(MAX_FORMS)(self._new_form)

    def body(self, requests: Sequence[Any]) -> bytes:
        """Make the body of the call that writes a row."""
        ((names, values),) = requests
        removed: tuple[int, ...] = ()
        if REMOVAL_JSON in values:
            removed = tuple(place for place, text in enumerate(values) if text == REMOVAL_JSON)
        form, pick = self._form(names, removed)
        body: str = form % pick(values)
        return body.encode("latin-1")

    def _new_form(
        self, names: tuple[str, ...], removed: tuple[int, ...]
    ) -> tuple[str, Callable[[Sequence[str]], Any]]:
        writes = self._writes
        request = writes.form(names, [names[place] for place in removed])
        fields = [
            f'"TableName":{quoted(writes.table)}',
            f'"{writes.mode.member}":{_object(request.attributes)}',
            *(f'"{name}":{quoted(text)}' for name, text in request.expressions.items()),
        ]
        if request.names:
            fields.append(f'"ExpressionAttributeNames":{compact_json(dict(request.names))}')
        fields = [text if "\0" in text else text.replace("%", "%%") for text in fields]
        if request.values:
            fields.append(f'"ExpressionAttributeValues":{_object(request.values)}')
        if request.returns_old:
            fields.append('"ReturnValuesOnConditionCheckFailure":"ALL_OLD"')
        text = f"{{{','.join(fields)}{CONSUMED_CAPACITY}".replace("\0", "%s")
        places = [names.index(name) for name in (*request.attributes, *request.values.values())]
        return to_octets(text), itemgetter(*places)


class InsertJoiner(RowJoiner):
    """Joiner of rows into bodies of BatchExecuteStatement; one row by itself goes by PutItem."""

    def __init__(self, writes: RowWrites) -> None:
        super().__init__(writes)
        self._opening = lru_cache(MAX_FORMS)(self._new_opening)

    def fits(self, names: Iterable[str]) -> bool:
        """Return whether a statement can insert an item with these attributes."""
        return self._opening(tuple(names)) is not None

    def body(self, requests: Sequence[Any]) -> bytes:
        """Make the body of the call that writes rows, of which each must fit a statement."""
        if len(requests) == 1:
            return super().body(requests)
        statements = [f"{self._opening(names)}{','.join(values)}]}}" for names, values in requests]
        return f'{{"Statements":[{",".join(statements)}]{CONSUMED_CAPACITY}'.encode("latin-1")

    def _new_opening(self, names: tuple[str, ...]) -> str | None:
        """Return the JSON of a statement up to its parameters; None if the names fit none."""
        statement = insert_statement(self._writes.table, names)
        return statement and f'{{"Statement":{to_octets(quoted(statement))},"Parameters":['


def joiner_for(
    table: Table,
    mode: WriteMode,
    position_attribute: str | None = None,
    writes: RowWrites | None = None,
) -> Joiner:
    """Return the joiner of a mode's rows; `writes` are the rules of rows that go one by one.

    `position_attribute` holds the position of each row in modes that keep it.
    """
    if writes is not None:
        return RowJoiner(writes)
    if mode.condition is None:
        return BatchJoiner(table.name, deletes=mode.deletes)
    if position_attribute is None:
        names, columns = {"#key": table.keys[0].name if table.keys else ""}, {}
    else:
        names, columns = {"#position": position_attribute}, {":position": position_attribute}
    own = RowWrites(mode, table.name, (), condition=Condition(mode.condition, names, columns))
    return (InsertJoiner if mode.inserts else RowJoiner)(own)


def _object(names: Iterable[str]) -> str:
    """Return a JSON object whose values are left open; a percent sign in a name is doubled."""
    members = ",".join(f"{quoted(name).replace('%', '%%')}:\0" for name in names)
    return f"{{{members}}}"
