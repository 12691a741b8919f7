"""What an upload's mapping may say of a run: its types, its options, and what becomes of nulls.

The same as `contracts.payload` takes, which a test compares: what it refuses would otherwise be
found out by the first upload. How objects are written, and which attributes their columns become,
have modules of their own (`mapped_source`, `mapped_columns`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from infra.values import a_name, an_object, is_text, one_of, refuse_others, texts, whole, wrong

TYPES = ("S", "N", "BOOL", "B", "SS", "NS", "BS", "M", "L", "NULL", "epoch")
OPTION_FIELDS = (
    *("mode", "position_attribute", "engine", "workers", "concurrency", "chunk_bytes"),
    *("max_wcu", "max_rejects", "max_row_bytes"),
)
NULL_FIELDS = ("policy", "markers")
NULL_POLICIES = ("omit", "null", "empty", "reject")

_POSITIONED = "last-wins"
_WORDS = {
    "mode": ("put", "insert", _POSITIONED, "delete", "plan"),
    "engine": ("sync", "threads", "async"),
}
_MOST = 2**53
_NUMBERS = {
    "workers": range(1, 10_001),
    "concurrency": range(1, 257),
    "chunk_bytes": range(1, _MOST + 1),
    "max_rejects": range(_MOST + 1),
    "max_row_bytes": range(1, _MOST + 1),
}


def types(where: str, value: object) -> Mapping[str, str]:
    """A type for some of the attributes."""
    found = an_object(where, value)
    for name, said in found.items():
        if not is_text(name):
            raise wrong(where, name, "an object, whose names are text that UTF-8 can write")
        one_of(f"{where}.{name}", said, TYPES)
    return found


def infer_types(where: str, value: object) -> bool:
    """Whether the other attributes get a type by their first values; null is no."""
    if value is not None and not isinstance(value, bool):
        raise wrong(where, value, "true or false")
    return bool(value)


def nulls(where: str, value: object) -> Mapping[str, Any]:
    """What is no value, and what becomes of it; null is as if the field were not there."""
    found = an_object(where, value)
    refuse_others(where, found, NULL_FIELDS)
    if found.get("policy") is not None:
        one_of(f"{where}.policy", found["policy"], NULL_POLICIES)
    if found.get("markers") is not None:
        texts(f"{where}.markers", found["markers"])
    return found


def options(where: str, value: object) -> Mapping[str, Any]:
    """A run's limits and knobs; null is as if the field were not there."""
    found = dict(an_object(where, value))
    refuse_others(where, found, OPTION_FIELDS)
    for name, each in found.items():
        place = f"{where}.{name}"
        if each is None:
            continue
        if name in _WORDS:
            one_of(place, each, _WORDS[name])
        elif name == "position_attribute":
            a_name(place, each)
        elif name in _NUMBERS:
            found[name] = whole(place, each, _NUMBERS[name], from_text=False)
        elif isinstance(each, bool) or not isinstance(each, int | float) or not _wcu(each):
            raise wrong(place, each, "a number of at least 1")
    _check_mode(where, found)
    return found


def _check_mode(where: str, found: Mapping[str, Any]) -> None:
    mode, name = found.get("mode"), found.get("position_attribute")
    if (mode == _POSITIONED) != (name is not None):
        wanted = f"the name of an attribute with mode {_POSITIONED}, and left out with any other"
        raise wrong(f"{where}.position_attribute", name, wanted)


def _wcu(number: float) -> bool:
    return 1 <= number <= sys.float_info.max
