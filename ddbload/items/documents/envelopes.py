"""What stands around an item in lines of DynamoDB's JSON."""

from __future__ import annotations

from typing import NamedTuple

from ddbload.dynamodb.attribute_values import VALUE_TYPES
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.json_values import Json, Members, named

_INCREMENT = frozenset({"Metadata", "Keys", "OldImage", "NewImage"})


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
    parts = named(members)
    if "Keys" not in parts or not parts.keys() <= _INCREMENT:
        raise BadValue(
            "bad_export",
            "not a line of a DynamoDB export: those have an Item; or Metadata, Keys, and a"
            " NewImage unless the item was deleted",
        )
    if "NewImage" not in parts:
        return DocumentRow(_object(parts["Keys"], "Keys"), deleted=True)
    return DocumentRow(_object(parts["NewImage"], "NewImage"))


def _is_value(content: Members) -> bool:
    return (
        len(content) == 1 and content[0][0] in VALUE_TYPES and not isinstance(content[0][1], tuple)
    )


def _object(content: Json, name: str) -> Members:
    if not isinstance(content, tuple):
        raise BadValue("bad_export", f"{name} is to be an object of attributes")
    return content
