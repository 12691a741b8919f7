"""Encode Arrow arrays exactly as DynamoDB JSON: integers and decimals never become floats.

Also measures their decoded size. A dictionary page holds a text once, and a data page can repeat it
a million times in a few bytes, so the sizes in a file do not bound its memory.
"""

from __future__ import annotations

import binascii
import datetime as dt
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from json.encoder import encode_basestring
from typing import Any

# pyarrow ships no type hints, so its objects are Any here.
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import types as kinds

from ddbload.dynamodb.attribute_values import NOT_A_DATE, NOT_A_TIME

_NULL = '{"NULL":true}'
_EPOCH = dt.date(1970, 1, 1).toordinal()
# First days of the years 1 and 10000, counted from 1970-01-01.
_FIRST_DAY, _DAY_AFTER_LAST = dt.date.min.toordinal() - _EPOCH, dt.date.max.toordinal() + 1 - _EPOCH
# Julian day of 1970-01-01.
_JULIAN_EPOCH = 2_440_588
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_UNITS = {digits: unit for unit, digits in _DIGITS.items()}


Leaves = Iterator[bool]
"""For each leaf column of the file, in order: whether it is INT96."""


def lines(batch: Any, int96: Iterable[bool]) -> bytes:
    """Encode a record batch as lines, one `{"Item": {...}}` per row.

    `int96`: for each leaf column of the file, whether it is INT96.

    Text that is not UTF-8 stays unchanged. Raises `NotImplementedError` for a column of unknown
    type.
    """
    names = [encode_basestring(name).replace("%", "%%") for name in batch.schema.names]
    template = '{"Item":{' + ",".join(f"{name}:%s" for name in names) + "}}\n"
    leaves = iter(int96)
    columns = [values(column, leaves) for column in batch.columns]
    rows: Iterable[tuple[str, ...]] = (
        zip(*columns, strict=True) if columns else [()] * batch.num_rows
    )
    return "".join([template % row for row in rows]).encode("utf-8", "surrogateescape")


def values(array: Any, int96: Leaves = repeat(False)) -> list[str]:  # noqa: B008 - has no state
    """Encode each element of an array as the JSON of an attribute value.

    Consumes an element of `int96` for each of the array's leaf columns.
    """
    kind = array.type
    if kinds.is_dictionary(kind):
        return values(array.dictionary_decode(), int96)
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.uuid":
        return values(array.storage, int96)
    for convert_nested, tests in _NESTED:
        if any(test(kind) for test in tests):
            return convert_nested(array, int96)
    if next(int96):
        return _old_timestamps(array)
    for convert, tests in _KINDS:
        if any(test(kind) for test in tests):
            return convert(array)
    raise NotImplementedError(f"a column of type {kind}")


def _uuids(array: Any) -> list[str]:
    texts = (None if raw is None else raw.hex() for raw in array.storage.to_pylist())
    return [
        _NULL if x is None else f'{{"S":"{x[:8]}-{x[8:12]}-{x[12:16]}-{x[16:20]}-{x[20:]}"}}'
        for x in texts
    ]


def _booleans(array: Any) -> list[str]:
    written = {None: _NULL, True: '{"BOOL":true}', False: '{"BOOL":false}'}
    return [written[value] for value in array.to_pylist()]


def _numbers(array: Any) -> list[str]:
    # Arrow prints floats with the fewest digits that round-trip, and decimals with all digits.
    texts = array.cast(pa.string()).to_pylist()
    return [_NULL if text is None else f'{{"N":"{text}"}}' for text in texts]


def _texts(array: Any) -> list[str]:
    try:
        found = array.to_pylist()
    except UnicodeDecodeError:
        large = kinds.is_large_string(array.type)
        raw = array.cast(pa.large_binary() if large else pa.binary()).to_pylist()
        found = [None if x is None else x.decode("utf-8", "surrogateescape") for x in raw]
    return [_NULL if text is None else f'{{"S":{encode_basestring(text)}}}' for text in found]


def _binaries(array: Any) -> list[str]:
    encode = binascii.b2a_base64
    return [
        _NULL if raw is None else f'{{"B":"{encode(raw, newline=False).decode()}"}}'
        for raw in array.to_pylist()
    ]


def _dates(array: Any) -> list[str]:
    if kinds.is_date32(array.type):
        days = array.view(pa.int32()).to_pylist()
    else:
        milliseconds = array.view(pa.int64()).to_pylist()
        days = [None if one is None else one // 86_400_000 for one in milliseconds]
    return _within(days, _FIRST_DAY, _DAY_AFTER_LAST, _date, (NOT_A_DATE, "days"))


def _times(array: Any) -> list[str]:
    digits = _DIGITS[array.type.unit]
    a_day = 86_400 * 10**digits
    whole = pa.int32() if kinds.is_time32(array.type) else pa.int64()
    counts, unit = array.view(whole).to_pylist(), array.type.unit
    return _within(counts, 0, a_day, lambda one: _time(one, digits), (NOT_A_TIME, unit))


def _timestamps(array: Any) -> list[str]:
    digits = _DIGITS[array.type.unit]
    counts = array.view(pa.int64()).to_pylist()
    return _instants(counts, digits, "" if array.type.tz is None else "Z")


def _old_timestamps(array: Any) -> list[str]:
    """Encode INT96 values: nanoseconds of a day in 8 bytes, then the Julian day in 4."""
    parts = (None if raw is None else struct.unpack("<qi", raw) for raw in array.to_pylist())
    a_day = 86_400 * 10**9
    counts = [
        None if part is None else (part[1] - _JULIAN_EPOCH) * a_day + part[0] for part in parts
    ]
    return _instants(counts, _DIGITS["ns"], "")


def _instants(counts: Iterable[int | None], digits: int, zone: str) -> list[str]:
    """Encode times since 1970 as ISO 8601, with all digits of their unit so that they sort."""
    a_day = 86_400 * 10**digits

    def write(one: int) -> str:
        day, rest = divmod(one, a_day)
        return f"{_date(day)}T{_time(rest, digits)}{zone}"

    first, after = _FIRST_DAY * a_day, _DAY_AFTER_LAST * a_day
    return _within(counts, first, after, write, (NOT_A_DATE, _UNITS[digits]))


def _within(
    counts: Iterable[int | None],
    first: int,
    after: int,
    write: Callable[[int], str],
    otherwise: tuple[str, str],
) -> list[str]:
    """Encode dates or times from `first` to before `after` as text.

    Values outside become placeholders with the raw number, which the reject shows. `otherwise`:
    type and unit in the placeholder.
    """
    kind, unit = otherwise
    made = []
    for one in counts:
        if one is None:
            made.append(_NULL)
        elif first <= one < after:
            made.append(f'{{"S":"{write(one)}"}}')
        else:
            made.append(f'{{"{kind}":"{one} {unit}"}}')
    return made


def _lists(array: Any, int96: Leaves) -> list[str]:
    if kinds.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    offsets = array.offsets.to_pylist()
    first = offsets[0]
    elements = values(array.values.slice(first, offsets[-1] - first), int96)
    return _joined(array, offsets, elements, '{"L":[', "]}")


def _structs(array: Any, int96: Leaves) -> list[str]:
    names = [encode_basestring(array.type.field(n).name) for n in range(array.type.num_fields)]
    template = '{"M":{' + ",".join(f"{name.replace('%', '%%')}:%s" for name in names) + "}}"
    columns = [values(column, int96) for column in array.flatten()]
    rows: Iterable[tuple[str, ...]] = zip(*columns, strict=True) if columns else [()] * len(array)
    return _with_nulls(array, [template % row for row in rows])


def _maps(array: Any, int96: Leaves) -> list[str]:
    offsets = array.offsets.to_pylist()
    first = offsets[0]
    count = offsets[-1] - first
    keys = _names(array.keys.slice(first, count), int96)
    elements = values(array.items.slice(first, count), int96)
    members = [
        f"{key}:{element}" if key[0] == '"' else f'"{NOT_A_TIME}":{key}'
        for key, element in zip(keys, elements, strict=True)
    ]
    return _joined(array, offsets, members, '{"M":{', "}}")


def _joined(
    array: Any, offsets: Sequence[int], elements: list[str], before: str, after: str
) -> list[str]:
    """Join the elements of each list or map. `offsets` are relative to the first offset."""
    first = offsets[0]
    made = [
        f"{before}{','.join(elements[begin - first : end - first])}{after}"
        for begin, end in pairwise(offsets)
    ]
    return _with_nulls(array, made)


def _names(keys: Any, int96: Leaves) -> list[str]:
    """Encode the keys of maps as JSON strings, taken from their attribute values."""
    if kinds.is_boolean(keys.type):
        next(int96)
        return ['"true"' if key else '"false"' for key in keys.to_pylist()]
    found = values(keys, int96)
    if any(not key.startswith(_MAP_KEYS) for key in found):
        raise NotImplementedError(f"a map with keys of type {keys.type}")
    # Keep a placeholder unchanged, so that the row is rejected.
    return [key if key.startswith(_NO_TIMES) else key[len('{"S":') : -1] for key in found]


_NO_TIMES = (f'{{"{NOT_A_DATE}":', f'{{"{NOT_A_TIME}":')
_MAP_KEYS = ('{"S":"', '{"N":"', '{"B":"', *_NO_TIMES)


def _with_nulls(array: Any, made: list[str]) -> list[str]:
    if not array.null_count:
        return made
    nulls = array.is_null().to_pylist()
    return [_NULL if null else one for null, one in zip(nulls, made, strict=True)]


def _date(day: int) -> str:
    """Format a day, counted from 1970-01-01, in the years 1 to 9999 as ISO 8601."""
    return dt.date.fromordinal(day + _EPOCH).isoformat()


def _time(count: int, digits: int) -> str:
    seconds, fraction = divmod(count, 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{fraction:0{digits}d}" if digits else text


# Functions that encode arrays, each with the tests of the types that it encodes.
_Tests = tuple[Callable[[Any], bool], ...]
_NESTED: Sequence[tuple[Callable[[Any, Leaves], list[str]], _Tests]] = (
    (_maps, (kinds.is_map,)),
    (_lists, (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)),
    (_structs, (kinds.is_struct,)),
)
_TEXTS: _Tests = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
_BINARIES: _Tests = (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view)
_KINDS: Sequence[tuple[Callable[[Any], list[str]], _Tests]] = (
    (_texts, _TEXTS),
    (_numbers, (kinds.is_integer, kinds.is_floating, kinds.is_decimal)),
    (_booleans, (kinds.is_boolean,)),
    (_timestamps, (kinds.is_timestamp,)),
    (_dates, (kinds.is_date,)),
    (_times, (kinds.is_time,)),
    (_binaries, (*_BINARIES, kinds.is_fixed_size_binary)),
    (lambda array: _numbers(array.view(pa.int64())), (kinds.is_duration,)),
    (lambda array: [_NULL] * len(array), (kinds.is_null,)),
    (_uuids, (lambda kind: isinstance(kind, pa.BaseExtensionType),)),
)


ROW_BYTES = 1024
"""Decoded bytes per row that are always accepted, however small the file is."""
_VALUE_BYTES = 64
# Memory per value while it is converted to JSON, besides its text.


def decoded_size(arrays: Iterable[Any]) -> tuple[int, int]:
    """Measure arrays, which may be dictionary-encoded, without decoding them.

    Returns the bytes of all values (those of a dictionary once per use), and an estimate of the
    memory that their conversion to JSON takes.
    """
    size = memory = 0
    for array in arrays:
        if kinds.is_nested(array.type):
            inner, of_values = decoded_size(_children(array))
        else:
            is_repeated = kinds.is_dictionary(array.type)
            inner = of_values = _repeated_bytes(array) if is_repeated else array.nbytes
        size += inner
        memory += of_values + _VALUE_BYTES * len(array)
    return size, memory


def slices(batch: Any, most_memory: int) -> Iterator[Any]:
    """Cut a record batch into parts that take at most `most_memory` each, or have a single row."""
    if batch.num_rows < 2 or decoded_size(batch.columns)[1] <= most_memory:
        yield batch
        return
    half = batch.num_rows // 2
    yield from slices(batch.slice(0, half), most_memory)
    yield from slices(batch.slice(half), most_memory)


def longest_value(array: Any) -> int:
    """Return the bytes of the longest text or binary value in an array's dictionaries."""
    if kinds.is_dictionary(array.type):
        if not _has_bytes(array.type.value_type):
            return 0
        return pc.max(pc.binary_length(array.dictionary)).as_py() or 0
    return max(map(longest_value, _children(array)), default=0)


def _repeated_bytes(array: Any) -> int:
    if not _has_bytes(array.type.value_type):
        return int(array.indices.nbytes)
    lengths = pc.binary_length(array.dictionary).take(array.indices)
    # As 64 bits: a sum of 32 bits may overflow.
    return pc.sum(lengths.cast("int64")).as_py() or 0


def _has_bytes(kind: Any) -> bool:
    return any(test(kind) for test in (*_TEXTS, *_BINARIES))


def _children(array: Any) -> list[Any]:
    """Return the child arrays of a nested array; an empty list for other arrays."""
    kind = array.type
    if kinds.is_map(kind):
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return [each.slice(first, last - first) for each in (array.keys, array.items)]
    if kinds.is_struct(kind):
        return list(array.flatten())
    return [array.flatten()] if kinds.is_nested(kind) else []
