"""Reads a cell's text as an attribute value of its column's type, times and JSON included.

Type `epoch` reads times as whole seconds since 1970, which DynamoDB's TTL goes by: dates and times
of ISO 8601 in the extended form, or a count of seconds, milliseconds, microseconds or nanoseconds,
which the size of the number tells apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial

from ddbload.contracts.options import REMOVE
from ddbload.contracts.payload import NULL, OMIT, REJECT, attribute_type
from ddbload.dynamodb.attribute_values import AttributeValue, check_value, decode_base64
from ddbload.dynamodb.row_writes import REMOVAL
from ddbload.dynamodb.scalar_text import BadValue, parse_boolean, parse_number
from ddbload.items.json_values import BAD_JSON, Json, attribute, parse, plain

_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)?"
    r" ?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_COUNT = re.compile(r"([+-]?)([0-9]{1,20})(\.[0-9]*)?")
_DATES = re.compile(r"(?:19|20|21)[0-9]{2}(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))?")
_DAY_FIRST = re.compile(r"[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}")
_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9))
"""Upper limit of a count, and how many of its unit make a second.

10**11 seconds are the year 5138; 10**11 milliseconds are March 1973.
"""
_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
_FORMS = "write 2026-01-31, 2026-01-31T23:59:59Z, or seconds or milliseconds since 1970"


def _read_null(text: str) -> AttributeValue:
    if text.lower() not in ("null", "true"):
        raise BadValue("not_null", "not a null; write null, or leave it empty")
    return {"NULL": True}


def _parse(text: str, advice: str) -> Json:
    """Parse JSON. Raises `BadValue`, with advice for a text that is not JSON."""
    try:
        return parse(text)
    except BadValue as bad:
        if bad.cause != BAD_JSON:
            raise
        raise BadValue(bad.cause, f"{bad.detail}; {advice}") from None


def _typed_document(kind: str, cause: str, example: str, text: str) -> AttributeValue:
    """Read DynamoDB JSON: the content of a map or list, or that in its envelope."""
    content = plain(parse(text))
    is_envelope = isinstance(content, dict) and content.keys() == {kind}
    if isinstance(content, dict if kind == "M" else list):
        try:
            return check_value({kind: content})
        except BadValue:
            if not is_envelope:
                raise
    if not is_envelope:
        raise BadValue(cause, f"JSON, and not {attribute_type(kind)} in DynamoDB JSON: {example}")
    return check_value(content)


def _document(kind: str, cause: str, wanted: str, text: str) -> AttributeValue:
    found = attribute(_parse(text, f"write {wanted}, or leave it a string"))
    if kind not in found:
        raise BadValue(cause, f"JSON, and not {wanted}")
    return found


def _set(kind: str, wanted: str, text: str) -> AttributeValue:
    # Most often the members stand one after the other.
    members = _parse(text, 'a set is a JSON list, such as ["a", "b"], also in a cell')
    # DynamoDB JSON writes numbers as strings, so a file may do that, too.
    kinds = (str, bytes) if kind == "NS" else (str,)
    if not isinstance(members, list) or not all(isinstance(each, kinds) for each in members):
        raise BadValue("not_a_set", f"JSON, and not a list of {wanted}")
    texts = [each.decode() if isinstance(each, bytes) else each for each in members]
    return check_value({kind: texts})


REFUSED: AttributeValue = {}
"""Placeholder for a missing value that is to be rejected."""
EMPTY_VALUES: dict[str, AttributeValue] = {
    "S": {"S": ""},
    "B": {"B": ""},
    "M": {"M": {}},
    "L": {"L": []},
}
"""Empty value of each type that has one: numbers and sets cannot be empty."""

_MAP = partial(_document, "M", "not_a_map", "a JSON object, such as {}")
_LIST = partial(_document, "L", "not_a_list", "a JSON list, such as []")
TEXT_READERS: Mapping[str, Callable[[str], AttributeValue]] = {
    "S": lambda text: {"S": text},
    "N": lambda text: {"N": parse_number(text).text},
    "BOOL": lambda text: {"BOOL": parse_boolean(text)},
    "B": lambda text: {"B": decode_base64(text)},
    "SS": partial(_set, "SS", "strings"),
    "NS": partial(_set, "NS", "numbers"),
    "BS": partial(_set, "BS", "strings of base64"),
    "M": _MAP,
    "L": _LIST,
    "NULL": _read_null,
    "epoch": lambda text: {"N": str(epoch_seconds(text))},
    "ddb_M": partial(_typed_document, "M", "not_a_map", '{"name": {"S": "text"}}'),
    "ddb_L": partial(_typed_document, "L", "not_a_list", '[{"S": "text"}]'),
    "json_M": _MAP,
    "json_L": _LIST,
}
"""Reader of each declared type. They take text that is not empty, and raise `BadValue`."""


TYPED_TYPES = {"M": "ddb_M", "L": "ddb_L"}
PLAIN_TYPES = {"M": "json_M", "L": "json_L"}
"""Types of cells in DynamoDB JSON, and of those that are not, for types that leave it open."""


def null_of(kind: str, policy: str, is_indexed: bool) -> AttributeValue | None:
    """Return the value of a missing attribute: None to leave it out, `REMOVAL`, or `REFUSED`.

    `is_indexed` marks a key of an index: DynamoDB accepts neither null nor an empty value there.
    """
    if policy == REJECT:
        return REFUSED
    if policy == REMOVE:
        # Then the item leaves the index.
        return REMOVAL
    if policy == OMIT or is_indexed:
        return None
    return {"NULL": True} if policy == NULL else EMPTY_VALUES.get(attribute_type(kind))


def epoch_seconds(text: str) -> int:
    """Return whole seconds since 1970-01-01T00:00:00Z. Raises `BadValue`.

    Times without a zone are UTC. Fractions are cut off towards the past.
    """
    count = _COUNT.fullmatch(text)
    if count is not None:
        return _seconds_of_count(count)
    found = _ISO.fullmatch(text)
    if found is None:
        order = ": the year comes first" if _DAY_FIRST.match(text) else ""
        raise BadValue("not_a_time", f"not a time; {_FORMS}{order}")
    year, month, day = (int(found[place]) for place in (1, 2, 3))
    hour, minute, second = (int(found[place] or 0) for place in (4, 5, 6))
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        raise BadValue("not_a_time", f"there is no such day; {_FORMS}") from None
    if hour > 23 or minute > 59 or second > 59:
        raise BadValue("not_a_time", f"there is no such time of day; {_FORMS}")
    return days * _DAY + hour * 3600 + minute * 60 + second - _offset(found[7])


def _seconds_of_count(count: re.Match[str]) -> int:
    sign, whole, fraction = count.groups()
    if not sign and fraction is None and _is_date(whole):
        # Taken as seconds, 20260131 is a day in 1970: with TTL, the item would expire at once.
        raise BadValue("not_a_time", "digits that are a date without dashes; write 2026-01-31")
    number = int(whole)
    unit = next((unit for limit, unit in _UNITS if number < limit), None)
    if unit is None:
        raise BadValue("not_a_time", f"too large a number for a time; {_FORMS}")
    past = sign == "-"
    if not past:
        return number // unit
    cut = number % unit or (fraction or "").strip(".0")
    return -(number // unit) - bool(cut)


def _is_date(digits: str) -> bool:
    """Return whether digits are a year, a day, or a day with hours, minutes and seconds."""
    if len(digits) == 14:
        hour, minute, second = digits[8:10], digits[10:12], digits[12:]
        if hour > "23" or minute > "59" or second > "59":
            return False
        digits = digits[:8]
    return _DATES.fullmatch(digits) is not None


def _offset(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise BadValue("not_a_time", f"there is no such time zone; {_FORMS}")
    seconds = hours * 3600 + minutes * 60
    return -seconds if zone[0] == "-" else seconds
