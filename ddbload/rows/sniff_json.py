"""Tells which of the JSON formats a file is in, by its first lines."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from ddbload.rows.json_shape import shape_of_json
from ddbload.rows.sniffed import Sniffed

_JSON_LINES = 100
_JSON_OBJECT = re.compile(rb"\s*\{\s*(?:\}|[\"']|\Z)")
"""Also of what only looks like JSON, as Python prints it: its lines are rejects, and no header."""
_JSON_ARRAY = re.compile(rb"\s*\[\s*(?:\{|\Z)")
_CONTENTS: dict[str, type] = {
    **dict.fromkeys(("S", "N", "B"), str),
    **dict.fromkeys(("BOOL", "NULL"), bool),
    **dict.fromkeys(("L", "SS", "NS", "BS"), list),
    "M": dict,
}
"""What stands after a type in DynamoDB's JSON."""
_CHANGE = {"Metadata", "Keys", "NewImage", "OldImage"}
_LINE = re.compile(rb"[^\r\n]+")


def sniff_json(data: bytes, whole: bool, wanted: Collection[str]) -> Sniffed | None:
    """None where it is not JSON."""
    shape = shape_of_json(data, whole=whole, keys=wanted)
    if shape is not None:
        return Sniffed("json", None, 0.9, f"it is {shape}")
    kinds: list[str | None] = []
    lines = list(_lines(data, whole))
    arrays = 0
    for line in lines:
        try:
            # Numbers stay text: their length is nobody's business here.
            value = json.loads(line, parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            value = None
        arrays += isinstance(value, list)
        kinds.append(_kind(value) if isinstance(value, dict) else None)
    known = [kind for kind in kinds if kind is not None]
    if not known:
        begins = data.lstrip()
        if not lines and begins and _JSON_OBJECT.match(data):
            return Sniffed("json", None, 0.5, "it begins as an object of JSON does")
        if lines and arrays == len(lines):
            return Sniffed("json", None, 0.5, "its first lines are arrays of JSON")
        if lines and _begins_as_json(lines[0]):
            return Sniffed(
                "json", None, 0.3, "it begins as JSON does, and its lines are not objects"
            )
        return None
    first = known[0]
    if kinds[0] is None and 2 * len(known) < len(kinds) and not _begins_as_json(lines[0]):
        # A delimited file may have an object of JSON for its only cell here and there.
        return None
    agreeing = kinds.count(first)
    why = f"{agreeing} of its first {len(kinds)} lines are {_SAID[first]}"
    return Sniffed(first, None, round(agreeing / len(kinds), 2), why)


def _begins_as_json(line: bytes) -> bool:
    return bool(_JSON_OBJECT.match(line) or _JSON_ARRAY.match(line))


_SAID = {
    "json": "objects of JSON",
    "dynamodb-json": "items in DynamoDB's JSON",
    "dynamodb-export": "changes as an incremental export has them",
}


def _kind(value: dict[str, object]) -> str:
    item = value.get("Item")
    if (len(value) == 1 and _is_item(item)) or (value and _is_item(value)):
        return "dynamodb-json"
    if "Keys" in value and len(value) > 1 and value.keys() <= _CHANGE:
        images = [image for name, image in value.items() if name != "Metadata" and image]
        if all(map(_is_item, images)):
            return "dynamodb-export"
    return "json"


def _is_item(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_typed, value.values()))


def _is_typed(value: object) -> bool:
    """Whether it is a value of DynamoDB's, as far as can be seen from outside."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    ((kind, content),) = value.items()
    return isinstance(content, _CONTENTS.get(kind, ()))


def _lines(data: bytes, whole: bool) -> Iterator[bytes]:
    """The first lines that are surely complete, without those of white space."""
    count = 0
    for found in _LINE.finditer(data):
        if found.end() == len(data) and not whole:
            return
        if not found.group().isspace():
            yield found.group()
            count += 1
            if count == _JSON_LINES:
                return
