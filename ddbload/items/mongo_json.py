"""Reads the values of MongoDB's extended JSON, version 2, canonical and relaxed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ddbload.dynamodb.attribute_values import decode_base64
from ddbload.dynamodb.scalar_text import BadValue, epoch_seconds, parse_number
from ddbload.items.json_values import Binary, Json, Members

_is_object_id = re.compile("[0-9a-fA-F]{24}").fullmatch
_is_time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)").fullmatch
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def mongo_line(members: Members) -> tuple[Members, bool]:
    """Take a line as a document, whose values say their types. Raises `BadValue`."""
    found = []
    for name, value in members:
        try:
            found.append((name, _plain(value)))
        except BadValue as bad:
            bad.column = name
            raise
    return tuple(found), False


def _plain(value: Json) -> Json:
    """Return a value as plain JSON. Raises `BadValue`, and RecursionError."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, tuple):
        return value
    kind = next((name for name, _ in value if name.startswith("$")), None)
    if kind is None:
        return tuple([(name, _plain(each)) for name, each in value])
    read = _READERS.get(kind)
    found = None if read is None or len(value) > 1 else read(value[0][1])
    if found is None:
        raise BadValue(
            "bad_mongo_value",
            f"a value {kind} of MongoDB, which DynamoDB has no type for"
            if read is None
            else f"not a value {kind} of extended JSON, version 2",
        )
    return found


def _number(value: Json) -> Json:
    return parse_number(value).text.encode() if isinstance(value, str) else None


def _date(value: Json) -> Json:
    if isinstance(value, str) and _is_time(value):
        epoch_seconds(value)
        return value
    if isinstance(value, tuple) and len(value) == 1 and value[0][0] == "$numberLong":
        value = _number(value[0][1])
    if not isinstance(value, bytes):
        return None
    try:
        # As relaxed JSON has it: without a fraction that is zero.
        time = _EPOCH + timedelta(milliseconds=int(value))
    except (ValueError, OverflowError):
        raise BadValue("not_a_time", "a $date before year 1 or after year 9999") from None
    digits = "milliseconds" if time.microsecond else "seconds"
    return time.replace(tzinfo=None).isoformat(timespec=digits) + "Z"


def _binary(value: Json) -> Json:
    parts = dict(value) if isinstance(value, tuple) else {}
    data = parts.get("base64")
    if not isinstance(data, str) or parts.keys() != {"base64", "subType"}:
        return None
    return Binary(decode_base64(data))


_READERS: dict[str, Callable[[Json], Json]] = {
    "$oid": lambda value: value if isinstance(value, str) and _is_object_id(value) else None,
    **dict.fromkeys(("$numberLong", "$numberInt", "$numberDouble", "$numberDecimal"), _number),
    "$date": _date,
    "$binary": _binary,
}
"""Readers of values, by type; None stands for a value that is none."""
