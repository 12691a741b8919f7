"""Points in time, read from text, as whole seconds since 1970: what DynamoDB's TTL goes by.

Taken are dates and times of ISO 8601 in its extended form, and numbers: seconds since 1970,
or thousandths, millionths or billionths of one, which their size tells apart.
"""

from __future__ import annotations

import re
from datetime import date

from ddbload.dynamodb.scalar_text import BadValue

_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)?"
    r" ?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_COUNT = re.compile(r"([+-]?)([0-9]{1,20})(\.[0-9]*)?")
_DATES = re.compile(r"(?:19|20|21)[0-9]{2}(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))?")
_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9))
"""What a count is smaller than, and how many of its unit are a second.

10**11 seconds are the year 5138, and as many thousandths March 1973.
"""
_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
_FORMS = "write 2026-01-31, 2026-01-31T23:59:59Z, or seconds or milliseconds since 1970"


def epoch_seconds(text: str) -> int:
    """Seconds since 1970-01-01T00:00:00Z, without fractions. Raises `BadValue`.

    What has no zone is UTC. Fractions are cut off towards the past.
    """
    count = _COUNT.fullmatch(text)
    if count is not None:
        return _counted(count)
    found = _ISO.fullmatch(text)
    if found is None:
        raise BadValue("not_a_time", f"not a time; {_FORMS}")
    year, month, day = (int(found[place]) for place in (1, 2, 3))
    hour, minute, second = (int(found[place] or 0) for place in (4, 5, 6))
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        raise BadValue("not_a_time", f"there is no such day; {_FORMS}") from None
    if hour > 23 or minute > 59 or second > 59:
        raise BadValue("not_a_time", f"there is no such time of day; {_FORMS}")
    return days * _DAY + hour * 3600 + minute * 60 + second - _offset(found[7])


def _counted(count: re.Match[str]) -> int:
    sign, whole, fraction = count.groups()
    if not sign and fraction is None and _is_date(whole):
        # As seconds it would be a day in 1970, and what TTL goes by would be gone at once.
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
    """Whether they are a year, a day, or a day with hours, minutes and seconds."""
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
