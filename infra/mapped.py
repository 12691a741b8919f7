"""What an upload's mapping may say of a run: its types, its source and its options.

The same as `ddbload.contracts` and `ddbload.rows.dialect` take, which a test compares: what
they refuse would otherwise be found out by the first upload.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from infra.values import an_object, one_of, refuse_others, whole, wrong

TYPES = ("S", "N", "BOOL")
SOURCE_FIELDS = ("format", "delimiter", "quote", "header", "columns", "encoding")
OPTION_FIELDS = (
    *("mode", "position_attribute", "engine", "workers", "concurrency", "chunk_bytes"),
    *("max_wcu", "max_rejects", "max_row_bytes"),
)

_DELIMITERS = {"csv": ",", "tsv": "\t"}
"""The formats, and each one's delimiter where none is named."""
_ENCODINGS = ("utf-8", "utf8", "utf-8-sig")
_POSITIONED = "last-wins"
_WORDS = {
    "mode": ("put", "insert", _POSITIONED, "delete"),
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
    """A type for some of the columns."""
    found = an_object(where, value)
    for column, name in found.items():
        one_of(f"{where}.{column}", name, TYPES)
    return found


def source(where: str, value: object) -> Mapping[str, Any]:
    """How the objects are written. null is as if the field were not there, but for `quote`."""
    found = an_object(where, value)
    refuse_others(where, found, SOURCE_FIELDS)
    given = {name: each for name, each in found.items() if each is not None}
    name = one_of(f"{where}.format", given.get("format", "csv"), list(_DELIMITERS))
    delimiter = given.get("delimiter", _DELIMITERS[name])
    _character(f"{where}.delimiter", delimiter)
    quote = found.get("quote", '"')
    # Neither null nor '' quotes anything.
    if quote not in (None, ""):
        _character(f"{where}.quote", quote)
    if delimiter == quote:
        raise wrong(f"{where}.quote", quote, "another character than delimiter")
    if not isinstance(given.get("header", True), bool):
        raise wrong(f"{where}.header", given["header"], "true or false")
    columns = given.get("columns", ("some",))
    texts = isinstance(columns, list | tuple) and all(isinstance(each, str) for each in columns)
    if not texts or not columns:
        raise wrong(f"{where}.columns", columns, "a list of at least one name")
    encoding = given.get("encoding", "utf-8")
    plain = encoding.lower().replace("_", "-") if isinstance(encoding, str) else ""
    if plain not in _ENCODINGS:
        raise wrong(f"{where}.encoding", encoding, "utf-8 (convert the objects with iconv)")
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
            _name(place, each)
        elif name in _NUMBERS:
            allowed = _NUMBERS[name]
            if isinstance(each, str):
                raise wrong(place, each, f"a whole number of at least {allowed.start}")
            found[name] = whole(place, each, allowed)
        elif isinstance(each, bool) or not isinstance(each, int | float) or not _wcu(each):
            raise wrong(place, each, "a number of at least 1")
    _check_mode(where, found)
    return found


def _check_mode(where: str, found: Mapping[str, Any]) -> None:
    mode, name = found.get("mode"), found.get("position_attribute")
    if (mode == _POSITIONED) != (name is not None):
        wanted = f"the name of an attribute with mode {_POSITIONED}, and left out with any other"
        raise wrong(f"{where}.position_attribute", name, wanted)


def _name(where: str, value: object) -> None:
    if not isinstance(value, str) or not value or any("\ud800" <= c <= "\udfff" for c in value):
        raise wrong(where, value, "the name of an attribute")


def _wcu(number: float) -> bool:
    return 1 <= number <= sys.float_info.max


def _character(where: str, value: object) -> None:
    if (
        not isinstance(value, str)
        or len(value) != 1
        or value in "\r\n"
        or "\ud800" <= value <= "\udfff"
    ):
        raise wrong(where, value, "one character, and no line end")
