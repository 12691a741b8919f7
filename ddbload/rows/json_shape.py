"""Guess the JSON format of a file from its first rows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from itertools import islice

from ddbload.contracts import source as layouts
from ddbload.contracts.source import DYNAMODB_EXPORT, DYNAMODB_JSON, JSON, MONGO_JSON
from ddbload.errors import InvalidJson, UnsupportedFormat
from ddbload.rows.blocks import WHITE_SPACE
from ddbload.rows.json_containers import AROUND_TABLES, BY_TABLE, PAGE, scan_start
from ddbload.rows.json_framing import frame_sample, rows_begin
from ddbload.rows.readings import GuessedFormat

OBJECTS = "a JSON array of objects"
OTHERS = "a JSON array of values that are not objects"
SCAN = "the response of a Scan or Query, with its items in a list"
ITEMS_IN_JSON = "requests of batch-write-item, or other rows in the JSON of DynamoDB's tools"
CONTAINER = "an object that holds an array of objects"
PRETTY = "JSON objects written over several lines"
SPACED = "several JSON objects in one line"
JOINED = "several JSON objects in one line, without white space between them"
LAYOUT_OF = {
    OBJECTS: layouts.ARRAY,
    SCAN: layouts.OBJECT,
    ITEMS_IN_JSON: layouts.OBJECT,
    CONTAINER: layouts.OBJECT,
    PRETTY: layouts.VALUES,
    SPACED: layouts.VALUES,
}
"""Layout of each shape that can be read directly."""
_MIN_ROWS = 2
"""Number of valid lines after which another line is a bad row, not part of a broken array."""
_OBJECTS_BEGIN = re.compile(r"\[\s*(?:\Z|\{\s*(?:[\"}]|\Z))")
_PAGE_BEGINS = re.compile(r'\{\s*(?:"(?:Scanned)?Count"\s*:\s*\d+\s*,\s*)*"Items"\s*:\s*\[')
_CUT_OFF = re.compile(r'(?:"[^\x00-\x1f]*|[-+.\\\w]*)\Z')
"""Possible rest of a sample that ends inside JSON: the beginning of a value, or nothing."""
_NOT_WHITE_SPACE = re.compile(rf"[^{WHITE_SPACE}]")
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
"""Decoder that keeps numbers as text, so that Python's limit on their length does not apply."""


class _CutOff(Exception):
    """Raised if the text ends inside a value that is well-formed so far."""


def begins_as_lines(data: bytes, keys: Collection[str]) -> bool:
    """Return whether the first line is complete, and an object other than a Scan response."""
    text = _text(data)
    line, end, _ = text.partition("\n")
    return bool(end) and _is_row(_value(line), keys)


def is_undecided(data: bytes) -> bool:
    """Return whether a beginning ends in or with its first object: more bytes are needed."""
    text = _text(data)
    if not text.startswith("{"):
        return False
    try:
        end = _decoded(text)[1]
    except ValueError:
        return False
    except _CutOff:
        return True
    return not text[end:].strip(WHITE_SPACE)


def json_layout(data: bytes, *, whole: bool, keys: Collection[str]) -> tuple[str, str] | None:
    """Return layout and shape of a JSON file that is not lines; None for all other files.

    Arguments as for `shape_of_json`.
    """
    shape = shape_of_json(data, whole=whole, keys=keys)
    # Without keys, a line that is not an item cannot be recognized.
    if shape is None and whole and keys and _is_container(_value(_text(data)), keys):
        shape = CONTAINER
    layout = LAYOUT_OF.get(shape or "")
    return None if layout is None or shape is None else (layout, shape)


def shape_of_json(data: bytes, *, whole: bool, keys: Collection[str]) -> str | None:
    """Return the shape of JSON that is certainly not lines of objects; None if it may be.

    Args:
        data: Beginning of the file, decompressed, without a byte order mark.
        whole: True if `data` is the whole file.
        keys: Columns of the table's keys. An object that has all of them is an item.
    """
    text = _text(data)
    if text[:1] not in ("[", "{"):
        return None
    try:
        value, end = _decoded(text)
    except ValueError:
        return _broken_shape(text, whole, keys)
    except _CutOff:
        return _cut_off_shape(text, whole, keys)
    if "\n" in text[:end]:
        is_alone = whole and not text[end:].strip(WHITE_SPACE)
        return _shape(value, keys, is_alone=is_alone)
    rest_of_line = text[end:].partition("\n")[0]
    if _is_page(value) and not _has(value, keys):
        return _shape(value, keys)
    if isinstance(value, dict) and rest_of_line.strip(WHITE_SPACE).startswith("{"):
        if _rows(text, whole, keys):
            return None
        return JOINED if rest_of_line.startswith("{") else SPACED
    if _is_row(value, keys):
        return None
    values = [_value(line) for line in _complete_lines(text, whole)]
    if any(_is_row(each, keys) for each in values):
        return None
    first = next(iter(values), None)
    if isinstance(value, list):
        is_alone = whole and len(values) == 1 and first is not None
        return _shape(value, keys) if is_alone or _is_array_of_objects(value) else None
    return _shape(first, keys) if _is_page(first) else None


def _cut_off_shape(text: str, whole: bool, keys: Collection[str]) -> str | None:
    """Return the shape of a text that ends inside its first value; None if it may be lines."""
    broken = _broken_shape(text, whole, keys)
    if broken is not None:
        return broken
    data = text.encode(errors="replace")
    if scan_start(data, None)[0].names_tables:
        return CONTAINER
    holds_rows = rows_begin(data, layouts.OBJECT)
    if whole and "\n" not in text.rstrip(WHITE_SPACE):
        # Any other single line is a bad row.
        return CONTAINER if holds_rows else None
    if whole and _rows(text, whole, keys):
        # Bad lines among good ones.
        return None
    if text.startswith("["):
        return OTHERS if text[1:].strip(WHITE_SPACE) else OBJECTS
    if holds_rows:
        return CONTAINER
    # The first line may be an object that is longer than the sample.
    return PRETTY if "\n" in text else None


def _broken_shape(text: str, whole: bool, keys: Collection[str]) -> str | None:
    """Return the shape of an array of objects that is damaged, cut off, or very long."""
    if whole and _rows(text, whole, keys) >= _MIN_ROWS:
        return None
    if _OBJECTS_BEGIN.match(text):
        return OBJECTS
    return SCAN if _PAGE_BEGINS.match(text) else None


def _shape(value: object, keys: Collection[str], *, is_alone: bool = False) -> str:
    """Return the shape of an array, or of a value that is written over several lines."""
    if isinstance(value, list):
        return OBJECTS if not value or isinstance(value[0], dict) else OTHERS
    if _is_page(value) and not _has(value, keys):
        is_scan = isinstance(value, dict) and value.keys() <= PAGE
        return SCAN if is_scan else ITEMS_IN_JSON
    return CONTAINER if is_alone and _is_container(value, keys) else PRETTY


def _is_container(value: object, keys: Collection[str]) -> bool:
    """Return whether an object is no item of this table, and holds a single array of objects.

    Without keys, an object with other members, such as an order with its lines, is an item.
    """
    if not isinstance(value, dict) or _has(value, keys) or kind_of(value) != JSON:
        return False
    waiting: list[dict[str, object]] = [value]
    found: list[list[object]] = []
    others = 0
    while waiting:
        for member in waiting.pop().values():
            if isinstance(member, dict):
                waiting.append(member)
            elif isinstance(member, list) and any(isinstance(each, dict) for each in member):
                found.append(member)
            else:
                others += member not in (None, [], "")
    is_alone = bool(keys) or not others
    return is_alone and len(found) == 1 and all(isinstance(each, dict) for each in found[0])


def _text(data: bytes) -> str:
    """Decode data, and remove white space at its start."""
    return data.decode("utf-8", "surrogateescape").lstrip(WHITE_SPACE)


def _complete_lines(text: str, whole: bool) -> Iterator[str]:
    """Yield the lines that are certainly complete, without lines of white space."""
    lines = text.split("\n")
    if not whole:
        lines.pop()
    return (line for line in lines if _NOT_WHITE_SPACE.search(line))


def _rows(text: str, whole: bool, keys: Collection[str]) -> int:
    """Count the lines that are rows, up to `_MIN_ROWS`."""
    rows = (line for line in _complete_lines(text, whole) if _is_row(_value(line), keys))
    return sum(1 for _ in islice(rows, _MIN_ROWS))


def _is_row(value: object, keys: Collection[str]) -> bool:
    return isinstance(value, dict) and (not _is_page(value) or _has(value, keys))


def _is_page(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    if not value.keys() <= PAGE:
        return _names_tables(value)
    items = value.get("Items")
    return isinstance(items, list) and all(isinstance(item, dict) for item in items)


def _names_tables(value: dict[str, object]) -> bool:
    """Return whether an object is no item, and holds rows by table."""
    if kind_of(value) != JSON:
        return False
    if BY_TABLE.isdisjoint(value):
        may_hold = "DataModel" in value or all(isinstance(each, list) for each in value.values())
    else:
        may_hold = value.keys() <= BY_TABLE | AROUND_TABLES
    return may_hold and scan_start(json.dumps(value).encode(), None)[0].names_tables


def _requested(value: dict[str, object]) -> object:
    """Return the item or key of a request of batch-write-item; None for any other object."""
    part = {"PutRequest": "Item", "DeleteRequest": "Key"}.get("".join(value))
    request = None if part is None else value["".join(value)]
    return request.get(part) if isinstance(request, dict) and len(request) == 1 else None


def _has(value: object, keys: Collection[str]) -> bool:
    return isinstance(value, dict) and bool(keys) and all(key in value for key in keys)


def _is_array_of_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _value(line: str) -> object:
    """Parse a line; None unless it is exactly one value."""
    try:
        value, end = _decoded(line.lstrip(WHITE_SPACE))
    except (ValueError, _CutOff):
        return None
    return None if line.lstrip(WHITE_SPACE)[end:].strip(WHITE_SPACE) else value


def _decoded(text: str) -> tuple[object, int]:
    """Parse the value at the start of a text; return it and its end.

    Raises `ValueError` and `_CutOff`.
    """
    try:
        return _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        if _CUT_OFF.match(text, error.pos):
            raise _CutOff from None
        raise
    except RecursionError:
        raise ValueError("nested too deeply") from None


_CONTENTS: dict[str, type] = {
    **dict.fromkeys(("S", "N", "B"), str),
    **dict.fromkeys(("BOOL", "NULL"), bool),
    **dict.fromkeys(("L", "SS", "NS", "BS"), list),
    "M": dict,
}
"""Python type of the content of each attribute type in DynamoDB JSON."""
_MONGO = {"$oid", "$date", "$numberLong", "$numberInt", "$numberDouble", "$numberDecimal"}
"""Names of values in MongoDB's extended JSON."""
_CHANGE = {"Metadata", "Keys", "NewImage", "OldImage"}


def kind_of(value: dict[str, object]) -> str:
    """Return the format of a row."""
    item = value.get("Item", _requested(value))
    if (len(value) == 1 and _is_typed_item(item)) or (value and _is_typed_item(value)):
        return DYNAMODB_JSON
    if "Keys" in value and len(value) > 1 and value.keys() <= _CHANGE:
        images = [image for name, image in value.items() if name != "Metadata" and image]
        if all(map(_is_typed_item, images)):
            return DYNAMODB_EXPORT
    return MONGO_JSON if any(map(_is_of_mongo, value.values())) else JSON


def _is_of_mongo(value: object) -> bool:
    return isinstance(value, dict) and len(value) == 1 and not _MONGO.isdisjoint(value)


def _is_typed_item(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_typed, value.values()))


def _is_typed(value: object) -> bool:
    """Return whether a value looks like an attribute value in DynamoDB JSON."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    ((kind, content),) = value.items()
    return isinstance(content, _CONTENTS.get(kind, ()))


_JSON_LINES = 100
_BEGINS_AS_JSON = re.compile(r"\s*(?:\{\s*(?:\}|[\"']|\Z)|\[\s*(?:\{|\Z))")
"""Beginning of an object, a Python `dict`, or an array of them: a bad row, not a CSV header."""
_TEXT = re.compile(r"\s*[\w\"'#]")


def sniff_json(data: bytes, whole: bool, wanted: Collection[str]) -> GuessedFormat | None:
    """Guess the JSON format of a file; None if it is not JSON."""
    shape = shape_of_json(data, whole=whole, keys=wanted)
    if shape is not None:
        return GuessedFormat(JSON, None, 0.9, f"it is {shape}")
    text = _text(data)
    lines = [*islice(_complete_lines(text, whole), _JSON_LINES)]
    values = list(map(_value, lines))
    kinds = [kind_of(value) if isinstance(value, dict) else None for value in values]
    known = [kind for kind in kinds if kind is not None]
    begins = _BEGINS_AS_JSON.match(lines[0] if lines else text)
    if not known:
        are_arrays = lines and all(isinstance(value, list) for value in values)
        why = "it begins as JSON does, and its lines are not objects"
        return GuessedFormat(JSON, None, 0.3, why) if begins or are_arrays else None
    first = known[0]
    if kinds[0] is None and 2 * len(known) < len(kinds) and not begins:
        # In a file of one column, some cells may be JSON objects.
        return None
    agreeing = kinds.count(first)
    why = f"{agreeing} of its first {len(kinds)} lines are {_DESCRIPTIONS[first]}"
    return GuessedFormat(first, None, round(agreeing / len(kinds), 2), why)


def sniff_framed(data: bytes, layout: str, shape: str) -> GuessedFormat:
    """Guess the format of JSON objects that are not lines, by the first object."""
    try:
        sample = frame_sample(data, layout)
        row = json.loads(sample.partition(b"\n")[0], parse_int=str, parse_float=str)
    except (InvalidJson, ValueError, RecursionError):
        # Reading the rows reports the position of the error.
        row = None
    kind = kind_of(row) if isinstance(row, dict) and row else JSON
    if kind in (DYNAMODB_JSON, MONGO_JSON):
        why = f"it is {shape}, and they are {_DESCRIPTIONS[kind]}"
        return GuessedFormat(kind, None, 0.9, why)
    return GuessedFormat(JSON, None, 0.9, f"it is {shape}")


def refuse_text_below_json(data: bytes, skipped: int) -> None:
    """Raise `UnsupportedFormat` for a value of JSON above rows of text. `skipped`: lines before."""
    text = _text(data)
    try:
        end = _decoded(text)[1] if text[:1] in ("[", "{") else 0
    except (ValueError, _CutOff):
        return
    rest, *lines = text[end:].split("\n")
    below = [line for line in lines if _NOT_WHITE_SPACE.search(line)]
    is_text = end and len(below) > 1 and _TEXT.match(below[0]) and not rest.strip(WHITE_SPACE)
    if not is_text or any(map(_BEGINS_AS_JSON.match, below)):
        return
    before = skipped + data.count(b"\n") - len(lines) + lines.index(below[0]) + 1
    error = UnsupportedFormat(
        f"a value of JSON ends before line {before + 1}, where other text begins: skip the value"
        f" (--skip-lines {before}), or make a file of each"
    )
    option = {"options": ["--skip-lines", f"{before}"], "best": False, "names": None, "rows": []}
    error.options = (option,)
    raise error


_TYPED = "DynamoDB's JSON"
_DESCRIPTIONS = {
    JSON: "objects of JSON",
    DYNAMODB_JSON: f"items in {_TYPED}",
    MONGO_JSON: "documents in MongoDB's extended JSON",
    DYNAMODB_EXPORT: "changes as an incremental export has them",
}
