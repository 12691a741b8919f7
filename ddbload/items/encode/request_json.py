"""JSON of requests: one put or delete for each row, and the bodies that send them.

A row is encoded as the request for it in a BatchWriteItem, `{"PutRequest":{"Item":...}}`, as
octets. Each mode makes the bodies of its calls from these texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from json import JSONEncoder
from json.encoder import encode_basestring as quoted
from typing import Any

from ddbload.contracts.run_record import Table
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.dynamodb.modes import POSITION_LENGTH, Deletion, WriteMode
from ddbload.items.item_builder import Item
from ddbload.rows.columns import from_octets, to_octets

RequestBody = Callable[[Sequence[str]], bytes]
"""Function that makes the body of one call from the requests for its rows."""

PUT_BEGIN, PUT_END = '{"PutRequest":{"Item":{', "}}}"
LINE_BEGIN, LINE_END = '{"Item":{', "}}\n"
"""JSON around the attributes of an item in a file of items."""
DELETE_BEGIN, DELETE_END = '{"DeleteRequest":{"Key":{', "}}}"
_ITEM = slice(len(PUT_BEGIN) - 1, 1 - len(PUT_END))
"""Slice of an item, its braces included, in the request that puts it."""
_POSITION = slice(-POSITION_LENGTH - len('"}}}}'), -len('"}}}}'))
"""Slice of the text of an item's last attribute in the request that puts it."""
CONSUMED_CAPACITY = ',"ReturnConsumedCapacity":"TOTAL"}'
"""End of each body."""
VALUE_MARK = "\x1f"
"""Character before and after each value of a row, where requests hold names and values apart.

JSON has none: between its tokens it is not white space, and in its strings it is escaped.
"""

compact_json = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Encoder without blanks. `json.dumps` with these arguments makes a new one in each call."""


def put_request(item: Attributes) -> str:
    """Return the request that puts an item, in octets."""
    return to_octets(compact_json({"PutRequest": {"Item": item}}))


def marked_put(item: Attributes) -> str:
    """Return the request that puts an item, in octets, with a `VALUE_MARK` around each value."""
    members = [
        f"{quoted(name)}:{VALUE_MARK}{compact_json(value)}{VALUE_MARK}"
        for name, value in item.items()
    ]
    return to_octets(f"{PUT_BEGIN}{','.join(members)}{PUT_END}")


def batch_request(item: Item) -> str:
    """Return the request that puts an item or, for a deletion, deletes it, in octets."""
    if item.deleted:
        return to_octets(compact_json({"DeleteRequest": {"Key": item.attributes}}))
    return put_request(item.attributes)


def item_of_request(request: str) -> Attributes:
    """Return the item that a request puts, or the key that it deletes as a `Deletion`."""
    text = from_octets(request).replace(VALUE_MARK, "")
    ((verb, content),) = json.loads(text).items()
    ((_, item),) = content.items()
    attributes: Attributes = item
    return Deletion(attributes) if verb == "DeleteRequest" else attributes


def request_body(
    table: Table, mode: WriteMode, position_attribute: str | None = None
) -> RequestBody:
    """Return the function that makes the bodies of a mode's calls.

    `position_attribute` is the last attribute of each item in mode `last-wins`.
    """
    if mode.deletes:
        return _batch_delete_body(table)
    key = table.keys[0].name if table.keys else ""
    condition = mode.condition_parameters(key, position_attribute)
    if not condition:
        return _batch_body(table)
    return _conditional_put_body(table, condition, has_position=mode.keeps_position)


def _batch_body(table: Table) -> RequestBody:
    """Make bodies of BatchWriteItem, which takes up to 25 requests."""
    prefix = to_octets(f'{{"RequestItems":{{{quoted(table.name)}:[')
    suffix = f"]}}{CONSUMED_CAPACITY}"

    def body(requests: Sequence[str]) -> bytes:
        return f"{prefix}{','.join(requests)}{suffix}".encode("latin-1")

    return body


def _batch_delete_body(table: Table) -> RequestBody:
    """Make bodies of BatchWriteItem that delete the keys in the requests."""
    body = _batch_body(table)
    return lambda requests: body(
        [f"{DELETE_BEGIN[:-1]}{put[_ITEM]}{DELETE_END[1:]}" for put in requests]
    )


def _conditional_put_body(
    table: Table, condition: Mapping[str, Any], *, has_position: bool
) -> RequestBody:
    """Make bodies of PutItem, which takes one item and a condition."""
    prefix = to_octets(f'{{"TableName":{quoted(table.name)},"Item":')
    expression = to_octets(f",{compact_json(condition)[1:-1]}")
    suffix = f',"ReturnValuesOnConditionCheckFailure":"ALL_OLD"{CONSUMED_CAPACITY}'

    def body(requests: Sequence[str]) -> bytes:
        (put,) = requests
        item = put[_ITEM].replace(VALUE_MARK, "")
        return f"{prefix}{item}{expression}{suffix}".encode("latin-1")

    def body_with_position(requests: Sequence[str]) -> bytes:
        (put,) = requests
        values = f',"ExpressionAttributeValues":{{":position":{{"S":"{put[_POSITION]}"}}}}'
        return f"{prefix}{put[_ITEM]}{expression}{values}{suffix}".encode("latin-1")

    return body_with_position if has_position else body
