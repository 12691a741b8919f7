"""JSON of requests: the request for each row, and the joiners that make the bodies of calls.

A row that goes in a BatchWriteItem is encoded as the text of its request. Any other operation needs
names and values apart: such a row is its attribute names and the JSON of each value. All JSON is
kept as octets.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from json import JSONEncoder
from json.encoder import encode_basestring as quoted
from operator import itemgetter
from typing import Any

from ddbload.contracts.run_record import Table
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.dynamodb.modes import (
    REMOVAL,
    Deletion,
    RequestForm,
    RowWrites,
    WriteMode,
    insert_statement,
)
from ddbload.items.item_builder import Item
from ddbload.rows.columns import from_octets, to_octets

RequestForms = Callable[[Sequence[str], Collection[str]], RequestForm]
"""Function that makes the request of rows with some names, of which some are to be removed."""
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
_REMOVAL = compact_json(REMOVAL)


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

    def __init__(self, table: str, member: str, request_form: RequestForms) -> None:
        """Take the parameter of the item or its key, and what makes the request of some names."""
        self._table, self._member, self._request_form = table, member, request_form
        # By the names of a row, and the places of the values to remove.
        self._forms: dict[Any, tuple[str, Callable[[Sequence[str]], Any]]] = {}

    def body(self, requests: Sequence[Any]) -> bytes:
        """Make the body of the call that writes a row."""
        ((names, values),) = requests
        removed: tuple[int, ...] = ()
        if _REMOVAL in values:
            removed = tuple(place for place, text in enumerate(values) if text == _REMOVAL)
        try:
            form, pick = self._forms[names, removed]
        except KeyError:
            form, pick = self._form(names, removed)
        body: str = form % pick(values)
        return body.encode("latin-1")

    def _form(
        self, names: Sequence[str], removed: Sequence[int]
    ) -> tuple[str, Callable[[Sequence[str]], Any]]:
        request = self._request_form(names, [names[place] for place in removed])
        fields = [
            f'"TableName":{quoted(self._table)}',
            f'"{self._member}":{_object(request.attributes)}',
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
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
        form = self._forms[names, tuple(removed)] = to_octets(text), itemgetter(*places)
        return form


class InsertJoiner(RowJoiner):
    """Joiner of rows into bodies of BatchExecuteStatement; one row by itself goes by PutItem."""

    def __init__(self, table: str, member: str, request_form: RequestForms) -> None:
        super().__init__(table, member, request_form)
        # By the names of a row: the JSON of a statement up to its parameters.
        self._openings: dict[tuple[str, ...], str | None] = {}

    def fits(self, names: Iterable[str]) -> bool:
        """Return whether a statement can insert an item with these attributes."""
        return self._opening(tuple(names)) is not None

    def body(self, requests: Sequence[Any]) -> bytes:
        """Make the body of the call that writes rows, of which each must fit a statement."""
        if len(requests) == 1:
            return super().body(requests)
        statements = [f"{self._opening(names)}{','.join(values)}]}}" for names, values in requests]
        return f'{{"Statements":[{",".join(statements)}]{CONSUMED_CAPACITY}'.encode("latin-1")

    def _opening(self, names: tuple[str, ...]) -> str | None:
        try:
            return self._openings[names]
        except KeyError:
            statement = insert_statement(self._table, names)
            if len(self._openings) >= MAX_FORMS:
                self._openings.clear()
            opening = self._openings[names] = statement and (
                f'{{"Statement":{to_octets(quoted(statement))},"Parameters":['
            )
            return opening


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
        return RowJoiner(writes.table, writes.mode.member, writes.form)
    if mode.condition is None:
        return BatchJoiner(table.name, deletes=mode.deletes)
    key = table.keys[0].name if table.keys else ""
    condition = mode.condition_parameters(key, position_attribute)
    placeholders = condition["ExpressionAttributeNames"]
    expressions = {"ConditionExpression": condition["ConditionExpression"]}
    values = {":position": position_attribute} if position_attribute is not None else {}

    def form(names: Sequence[str], removed: Collection[str] = ()) -> RequestForm:  # noqa: ARG001
        return RequestForm(tuple(names), expressions, placeholders, values, returns_old=True)

    return (InsertJoiner if mode.inserts else RowJoiner)(table.name, mode.member, form)


def _object(names: Iterable[str]) -> str:
    """Return a JSON object whose values are left open; a percent sign in a name is doubled."""
    members = ",".join(f"{quoted(name).replace('%', '%%')}:\0" for name in names)
    return f"{{{members}}}"
