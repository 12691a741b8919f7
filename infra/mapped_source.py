"""How the objects of an upload mapping are written: what `contracts.payload.Source` takes, and
`ddbload.rows.dialect` of marks, and `ddbload.rows.dialect` of encodings, which a test compares.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from infra.values import a_name, an_object, one_of, refuse_others, texts, whole, wrong

SOURCE_FIELDS = (
    *("format", "delimiter", "quote", "escape", "comment", "skip_lines", "header", "columns"),
    *("encoding", "compression", "max_expansion"),
)

_AUTO = "auto"
_DELIMITERS = {"csv": ",", "tsv": "\t", _AUTO: _AUTO}
"""The formats that have marks, and each one's delimiter where none is named."""
_FORMATS = (*_DELIMITERS, "json", "dynamodb-json", "dynamodb-export", "parquet")
_COMPRESSIONS = ("none", "gzip", "zstd", _AUTO)
_MOST = 2**53
_NUMBERS = {"skip_lines": range(_MOST + 1), "max_expansion": range(1, _MOST + 1)}
_NOT_OF_FILES = {"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
"""Codecs between text and bytes that no file is written in."""


def source(where: str, value: object) -> Mapping[str, Any]:
    """How the objects are written. null is as if the field were not there, but for `quote`."""
    found = dict(an_object(where, value))
    refuse_others(where, found, SOURCE_FIELDS)
    given = {name: each for name, each in found.items() if each is not None}
    one_of(f"{where}.format", given.get("format", _AUTO), _FORMATS)
    one_of(f"{where}.compression", given.get("compression", _AUTO), _COMPRESSIONS)
    for name, allowed in _NUMBERS.items():
        if name in given:
            found[name] = whole(f"{where}.{name}", given[name], allowed, from_text=False)
    if not isinstance(given.get("header", True), bool):
        raise wrong(f"{where}.header", given["header"], "true or false")
    if "columns" in given:
        _columns(f"{where}.columns", given["columns"])
    encoding = given.get("encoding", _AUTO)
    if not _is_known(encoding):
        wanted = "an encoding of text that Python knows, such as utf-16 or latin-1, or auto"
        raise wrong(f"{where}.encoding", encoding, wanted)
    marks = _marks(where, {"quote": '"', **found})
    if given.get("format", _AUTO) in _DELIMITERS:
        _check_marks(where, marks, encoding)
    return found


def _columns(where: str, value: object) -> None:
    names = texts(where, value)
    if not names or not all(names) or len(set(names)) < len(names):
        raise wrong(where, value, "a list of at least one name, each of them once")


def _marks(where: str, found: Mapping[str, Any]) -> dict[str, str]:
    """What has a meaning within the text, by its field. Texts, all of them."""
    marks = {}
    for name in ("delimiter", "quote", "escape", "comment"):
        mark = found.get(name)
        # '' quotes nothing, as null does not.
        if mark is not None and not (name == "quote" and mark == ""):
            marks[name] = a_name(f"{where}.{name}", mark, "text that is not empty")
    marks.setdefault("delimiter", _DELIMITERS.get(found.get("format") or _AUTO, _AUTO))
    return marks


def _check_marks(where: str, given: Mapping[str, str], encoding: str) -> None:
    """That they can be told apart, and be found."""
    marks = dict(given)
    if marks["delimiter"] == _AUTO:
        marks["delimiter"] = "," if marks.get("quote") != "," else ";"
    if marks.get("escape") == marks.get("quote"):
        # A quote that escapes a quote is one that is doubled.
        marks.pop("escape", None)
    for name, mark in marks.items():
        place = f"{where}.{name}"
        if len(mark) > 1 and name in ("quote", "escape"):
            raise wrong(place, mark, "one character")
        if "\r" in mark or "\n" in mark:
            raise wrong(place, mark, "text without a line end")
        if not _is_written_in(encoding, mark):
            raise wrong(place, mark, f"text that can be written in {encoding}")
    for one, other in combinations(marks, 2):
        if marks[one] == marks[other]:
            raise wrong(f"{where}.{other}", marks[other], f"another one than {one}")
    for name in ("quote", "escape"):
        if marks.get(name, "\n") in marks["delimiter"]:
            raise wrong(f"{where}.delimiter", marks["delimiter"], f"without the {name} in it")


def _is_known(encoding: object) -> bool:
    """Whether text can be written in it."""
    if not isinstance(encoding, str):
        return False
    if encoding == _AUTO:
        return True
    try:
        codec = codecs.lookup(encoding)
        # Codecs from bytes to bytes, or from text to text, refuse this by themselves.
        "a".encode(encoding)
    except (LookupError, ValueError):
        return False
    return codec.name.lower().replace("_", "-") not in _NOT_OF_FILES


def _is_written_in(encoding: str, mark: str) -> bool:
    try:
        mark.encode("utf-8" if encoding == _AUTO else encoding)
    except UnicodeError:
        return False
    return True
