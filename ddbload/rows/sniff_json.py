"""Guesses which format of JSON a file is in, by its first rows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from ddbload.contracts.source import DYNAMODB_EXPORT, DYNAMODB_JSON, JSON
from ddbload.errors import InvalidJson
from ddbload.rows.format_guess import GuessedFormat
from ddbload.rows.json_framing import frame_sample
from ddbload.rows.json_shape import kind_of, shape_of_json

_JSON_LINES = 100
_JSON_OBJECT = re.compile(rb"\s*\{\s*(?:\}|[\"']|\Z)")
"""Beginning of an object, or of a Python `dict`: such lines are rejects, not a CSV header."""
_JSON_ARRAY = re.compile(rb"\s*\[\s*(?:\{|\Z)")
_LINE = re.compile(rb"[^\r\n]+")


def sniff_json(data: bytes, whole: bool, wanted: Collection[str]) -> GuessedFormat | None:
    """Guess the JSON format of a file; None if it is not JSON."""
    shape = shape_of_json(data, whole=whole, keys=wanted)
    if shape is not None:
        return GuessedFormat(JSON, None, 0.9, f"it is {shape}")
    kinds: list[str | None] = []
    lines = list(_first_lines(data, whole))
    arrays = 0
    for line in lines:
        try:
            # Numbers stay text, so that Python's limit on their length does not apply.
            value = json.loads(line, parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            value = None
        arrays += isinstance(value, list)
        kinds.append(kind_of(value) if isinstance(value, dict) else None)
    known = [kind for kind in kinds if kind is not None]
    if not known:
        begins = data.lstrip()
        if not lines and begins and _JSON_OBJECT.match(data):
            return GuessedFormat(JSON, None, 0.5, "it begins as an object of JSON does")
        if lines and arrays == len(lines):
            return GuessedFormat(JSON, None, 0.5, "its first lines are arrays of JSON")
        if lines and _begins_as_json(lines[0]):
            return GuessedFormat(
                JSON, None, 0.3, "it begins as JSON does, and its lines are not objects"
            )
        return None
    first = known[0]
    if kinds[0] is None and 2 * len(known) < len(kinds) and not _begins_as_json(lines[0]):
        # In a file of one column, a cell may be a JSON object now and then.
        return None
    agreeing = kinds.count(first)
    why = f"{agreeing} of its first {len(kinds)} lines are {_DESCRIPTIONS[first]}"
    return GuessedFormat(first, None, round(agreeing / len(kinds), 2), why)


def sniff_framed(data: bytes, layout: str, shape: str) -> GuessedFormat:
    """Guess the format of JSON objects that are not lines, by the first one."""
    kind = JSON
    try:
        sample = frame_sample(data, layout)
        row = json.loads(sample.partition(b"\n")[0], parse_int=str, parse_float=str)
    except (InvalidJson, ValueError, RecursionError):
        # Reading says where it is bad.
        pass
    else:
        if isinstance(row, dict) and row:
            kind = kind_of(row)
    if kind == DYNAMODB_JSON:
        return GuessedFormat(kind, None, 0.9, f"it is {shape}, and the first one is in {_TYPED}")
    return GuessedFormat(JSON, None, 0.9, f"it is {shape}")


def _begins_as_json(line: bytes) -> bool:
    return bool(_JSON_OBJECT.match(line) or _JSON_ARRAY.match(line))


_TYPED = "DynamoDB's JSON"
_DESCRIPTIONS = {
    JSON: "objects of JSON",
    DYNAMODB_JSON: f"items in {_TYPED}",
    DYNAMODB_EXPORT: "changes as an incremental export has them",
}


def _first_lines(data: bytes, whole: bool) -> Iterator[bytes]:
    """Yield the first lines that are certainly complete, without those of white space."""
    count = 0
    for found in _LINE.finditer(data):
        if found.end() == len(data) and not whole:
            return
        if not found.group().isspace():
            yield found.group()
            count += 1
            if count == _JSON_LINES:
                return
