"""Encode Arrow arrays exactly as DynamoDB JSON: integers and decimals never become floats.

Also measures their decoded size. A dictionary page holds a text once, and a data page can repeat it
a million times in a few bytes, so the sizes in a file do not bound its memory.
"""

from __future__ import annotations

import binascii
import datetime as dt
import math
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import repeat
from json.encoder import encode_basestring
from typing import Any
from uuid import UUID

# pyarrow ships no type hints, so its objects are Any here.
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import types as kinds

from ddbload.dynamodb.attribute_values import NOT_A_DATE, NOT_A_TIME
from ddbload.dynamodb.limits import MAX_DEPTH, MAX_DIGITS, MAX_EXPONENT, MIN_EXPONENT
from ddbload.rows.blocks import RowBytes
from ddbload.rows.columns import JSON_ESCAPED, to_octets

_STRING = pa.string()
_NULL = '{"NULL":true}'
_EPOCH = dt.date(1970, 1, 1).toordinal()
# First and last days of the years 1 to 9999, counted from 1970-01-01.
_FIRST_DAY, _LAST_DAY = dt.date.min.toordinal() - _EPOCH, dt.date.max.toordinal() - _EPOCH
# Julian day of 1970-01-01.
_JULIAN_EPOCH = 2_440_588
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_SECONDS = 86_400
_LEAST, _LARGEST = 10.0**MIN_EXPONENT, math.nextafter(10.0 ** (MAX_EXPONENT + 1), 0)
_PLAIN = bytes(set(range(256)) - set(JSON_ESCAPED))

Leaves = Iterator[bool]
"""For each leaf column of the file, in order: whether it is INT96."""
Texts = tuple[str, Any]
"""Type of an array's values, and an array of the text between `_AROUND` of each, null for null. The
type is empty if a value may not be DynamoDB's: then each text is the whole JSON of its value."""
_AROUND = {"": ("", ""), "L": ("", ""), "M": ("", ""), "BOOL": ('{"BOOL":', "}")}
_AROUND.update({kind: (f'{{"{kind}":"', '"}') for kind in ("S", "N", "B")})
_LINE_BEGIN, _LINE_END = '{"Item":{', "}}\n"


def lines(batch: Any, int96: Iterable[bool], most_bytes: int) -> Iterator[RowBytes]:
    """Encode a record batch as lines, one `{"Item": {...}}` per row, of at most `most_bytes` each.

    A longer line is one by itself. `int96`: for each leaf column of the file, whether it is INT96.

    Text that is not UTF-8 stays unchanged. Raises `NotImplementedError` for a column of unknown
    type.
    """
    names, leaves = tuple(batch.schema.names), iter(int96)
    columns = [_encode(column, leaves) for column in batch.columns]
    types = tuple(kind for kind, _ in columns)
    has_nulls = any(found.null_count for _, found in columns)
    texts = _object(names, columns, _LINE_BEGIN, _LINE_END, batch.num_rows)

    @cache
    def items() -> list[str]:
        members = [
            _join(f",{encode_basestring(name)}:", _whole(column))
            for name, column in zip(names, columns, strict=True)
        ]
        joined = _join(_LINE_BEGIN, *members, _LINE_END, null_handling="replace")
        ends, octets = _buffers(joined)
        found = to_octets(str(octets[: ends[-1]], "utf-8"))
        return found.replace(f"{_LINE_BEGIN},", _LINE_BEGIN).split("\n")[:-1]

    @cache
    def values_of(place: int) -> list[str | None]:
        kind, found = columns[place]
        known: list[str | None] = (
            found if kind in ("S", "N") else _whole(columns[place])
        ).to_pylist()
        return known

    read = names, types, has_nulls, items, values_of
    ends, octets = _buffers(texts)
    start = 0
    while start < batch.num_rows:
        end = max(start + 1, bisect_right(ends, ends[start] + most_bytes) - 1)
        rows = RowBytes(octets[ends[start] : ends[end]])
        rows.values, rows.part = read, slice(start, end)
        yield rows
        start = end


def _buffers(texts: Any) -> tuple[list[int], memoryview]:
    """Return the offsets of an array's texts, and of the end, in their octets; and the octets."""
    _, offsets, octets = texts.buffers()
    return memoryview(offsets).cast("i")[: len(texts) + 1].tolist(), memoryview(octets)


def values(array: Any, int96: Leaves = repeat(False)) -> Any:  # noqa: B008 - has no state
    """Return an array of the JSON of each element as an attribute value.

    Consumes an element of `int96` for each of the array's leaf columns.
    """
    return _filled(_encode(array, int96))


def _whole(column: Texts) -> Any:
    (before, after), texts = _AROUND[column[0]], column[1]
    return _join(before, texts, after) if before else texts


def _filled(column: Texts) -> Any:
    return _whole(column).fill_null(_scalar(_NULL))


def _array(values: Iterable[object], kind: Any = _STRING) -> Any:
    # pyarrow's own conversion imports pandas if that is installed, which takes 40 MB.
    builder = pa.lib.StringBuilder()
    builder.append_values([None if value is None else str(value) for value in values])
    return builder.finish().cast(kind)


def _scalar(value: object, kind: Any = _STRING) -> Any:
    return _array([value], kind)[0]


def _join(*texts: Any, **options: str) -> Any:
    arrays = [_scalar(text) if isinstance(text, str) else text for text in (*texts, "")]
    return pc.binary_join_element_wise(*arrays, **options)


def _encode(array: Any, int96: Leaves) -> Texts:
    kind = array.type
    if kinds.is_dictionary(kind):
        return _encode(array.dictionary_decode(), int96)
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.uuid":
        return _encode(array.storage, int96)
    for encode_nested, tests in _NESTED:
        if any(test(kind) for test in tests):
            # Each level of a type has its own pair of brackets.
            is_deep = str(kind).count("<") >= MAX_DEPTH - 1
            found, texts = encode_nested(array, int96)
            return "" if is_deep else found, texts
    if next(int96):
        return _old_timestamps(array)
    for encode, tests in _KINDS:
        if any(test(kind) for test in tests):
            return encode(array)
    raise NotImplementedError(f"a column of type {kind}")


def _uuids(array: Any) -> Texts:
    texts = [raw and str(UUID(bytes=raw)) for raw in array.storage.to_pylist()]
    return "S", _array(texts)


def _numbers(array: Any) -> Texts:
    # Arrow prints floats with the fewest digits that round-trip, and decimals with all digits.
    kind, found, is_legal = array.type, ("N", array.cast(_STRING)), True
    if kinds.is_floating(kind):
        sizes = pc.abs(array.cast(pa.float64()))
        is_zero = pc.equal(sizes, _scalar(0, sizes.type))
        is_in_range = pc.or_(is_zero, _are_within(sizes, _LEAST, _LARGEST))
        is_legal = pc.all(is_in_range).as_py() is not False
    elif kinds.is_decimal(kind):
        is_legal = kind.precision <= MAX_DIGITS
    return found if is_legal else ("", _whole(found))


def _texts(array: Any) -> Texts:
    if not kinds.is_string(array.type):
        array = array.cast(_STRING)
    found = set(bytes(array.buffers()[2] or b"").translate(None, _PLAIN))
    for byte in sorted(found, key=lambda byte: byte != ord("\\")):
        # The backslash comes first.
        array = pc.replace_substring(array, chr(byte), encode_basestring(chr(byte))[1:-1])
    return "S", array


def _binaries(array: Any) -> Texts:
    encode = binascii.b2a_base64
    found = array.to_pylist()
    return "B", _array(raw if raw is None else encode(raw, newline=False).decode() for raw in found)


def _dates(array: Any) -> Texts:
    days = array.cast(pa.date32()).view(pa.int32()).cast(pa.int64())
    return _within(days, _FIRST_DAY, _LAST_DAY, _date_texts, NOT_A_DATE, "days")


def _times(array: Any) -> Texts:
    kind, unit = array.type, array.type.unit
    whole = pa.int32() if kinds.is_time32(kind) else pa.int64()
    counts = array.view(whole).cast(pa.int64())

    def texts(counts: Any) -> Any:
        return counts.cast(whole).view(kind).cast(_STRING)

    return _within(counts, 0, _DAY_SECONDS * _UNITS[unit] - 1, texts, NOT_A_TIME, unit)


def _timestamps(array: Any) -> Texts:
    """Encode times since 1970 as ISO 8601, with all digits of their unit so that they sort."""
    unit, zone = array.type.unit, "" if array.type.tz is None else "Z"
    a_day = _DAY_SECONDS * _UNITS[unit]

    def texts(counts: Any) -> Any:
        made = pc.binary_replace_slice(counts.view(pa.timestamp(unit)).cast(_STRING), 10, 11, "T")
        return _join(made, zone) if zone else made

    first, last = max(-(2**63), _FIRST_DAY * a_day), min(2**63, (_LAST_DAY + 1) * a_day) - 1
    return _within(array.view(pa.int64()), first, last, texts, NOT_A_DATE, unit)


def _old_timestamps(array: Any) -> Texts:
    """Encode INT96 values: nanoseconds of a day in 8 bytes, then the Julian day in 4."""
    parts = [None if raw is None else struct.unpack("<qi", raw) for raw in array.to_pylist()]
    a_day = _DAY_SECONDS * _UNITS["ns"]
    counts = [x and (x[1] - _JULIAN_EPOCH) * a_day + x[0] for x in parts]
    days = _array((x and x // a_day for x in counts), pa.int64())
    times = _array((x and x % a_day for x in counts), pa.int64())
    times = times.view(pa.time64("ns")).cast(_STRING)

    def texts(days: Any) -> Any:
        return _join(_date_texts(days), "T", times)

    return _within(days, _FIRST_DAY, _LAST_DAY, texts, NOT_A_DATE, "ns", _array(counts))


def _date_texts(days: Any) -> Any:
    return days.cast(pa.int32()).view(pa.date32()).cast(_STRING)


_Write = Callable[[Any], Any]


def _within(
    counts: Any, first: int, last: int, write: _Write, kind: str, unit: str, shown: Any = None
) -> Texts:
    """Encode dates or times from `first` to `last` as text by `write`.

    Values outside become placeholders of this type with the raw number, which the reject shows.
    """
    is_good = _are_within(counts, first, last)
    if pc.all(is_good).as_py() is not False:
        return "S", write(counts)
    good = _join(
        _AROUND["S"][0],
        write(pc.if_else(is_good, counts, _scalar(0, counts.type))),
        _AROUND["S"][1],
    )
    number = counts.cast(_STRING) if shown is None else shown
    return "", pc.if_else(is_good, good, _join(f'{{"{kind}":"', number, f' {unit}"}}'))


def _are_within(values: Any, first: float, last: float) -> Any:
    least, most = _array([first, last], values.type)
    return pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))


def _lists(array: Any, int96: Leaves) -> Texts:
    if kinds.is_fixed_size_list(array.type):
        size, count = array.type.list_size, len(array)
        offsets = _array((place * size for place in range(count + 1)), pa.int32())
        elements = array.values.slice(array.offset * size, count * size)
    else:
        offsets, first = array.offsets, array.offsets[0].as_py()
        elements = array.values.slice(first, offsets[-1].as_py() - first)
    column = _encode(elements, int96)
    return column[0] and "L", _joined(array, offsets, _filled(column), '{"L":[', "]}")


def _structs(array: Any, int96: Leaves) -> Texts:
    names = [array.type.field(place).name for place in range(array.type.num_fields)]
    columns = [_encode(column, int96) for column in array.flatten()]
    is_certain = all(kind for kind, _ in columns) and all(names)
    kind = "M" if is_certain and len(set(names)) == len(names) else ""
    return kind, _valid(array, _object(names, columns, '{"M":{', "}}", len(array)))


def _maps(array: Any, int96: Leaves) -> Texts:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    kind, keys = _encode(array.keys.slice(first, last - first), int96)
    elements = values(array.items.slice(first, last - first), int96)
    if keys.null_count or (len(keys) and kinds.is_nested(array.type.key_type)):
        raise NotImplementedError(f"a map with keys of type {array.type.key_type}")
    if kind:
        members = _join('"', keys, '":', elements)
    else:
        # Keep a placeholder unchanged, so that the row is rejected.
        good = _join(pc.utf8_slice_codeunits(keys, len('{"S":'), -1), ":", elements)
        is_good = pc.match_substring_regex(keys, '^{"[SN]":')
        members = pc.if_else(is_good, good, _join(f'"{NOT_A_TIME}":', keys))
    # Two keys may be equal, or empty.
    return "", _joined(array, array.offsets, members, '{"M":{', "}}")


def _joined(array: Any, offsets: Any, elements: Any, before: str, after: str) -> Any:
    """Join the elements of each list or map. `offsets` are relative to the first offset."""
    offsets = pc.subtract(offsets, offsets[0]).cast(pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), _scalar(","))
    return _valid(array, _join(before, joined, after))


def _valid(array: Any, texts: Any) -> Any:
    is_valid = array.is_valid()
    return pc.if_else(is_valid, texts, _scalar(None)) if array.null_count else texts


def _object(
    names: Sequence[str], columns: Sequence[Texts], begin: str, end: str, count: int
) -> Any:
    """Return the JSON of objects with these members."""
    parts: list[Any] = []
    for name, (kind, texts) in zip(names, columns, strict=True):
        if texts.null_count:
            kind, texts = "", _filled((kind, texts))
        before, after = _AROUND[kind]
        parts += [f"{begin}{encode_basestring(name)}:{before}", texts]
        begin = f"{after},"
    if not parts:
        return _array([begin + end] * count)
    return _join(*parts, begin[:-1] + end)


# Functions that encode arrays, each with the tests of the types that it encodes.
_Tests = tuple[Callable[[Any], bool], ...]
_NESTED: Sequence[tuple[Callable[[Any, Leaves], Texts], _Tests]] = (
    (_maps, (kinds.is_map,)),
    (_lists, (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)),
    (_structs, (kinds.is_struct,)),
)
_TEXTS: _Tests = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
_BINARIES: _Tests = (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view)
_KINDS: Sequence[tuple[Callable[[Any], Texts], _Tests]] = (
    (_texts, _TEXTS),
    (_numbers, (kinds.is_integer, kinds.is_floating, kinds.is_decimal)),
    (lambda array: ("BOOL", array.cast(_STRING)), (kinds.is_boolean,)),
    (_timestamps, (kinds.is_timestamp,)),
    (_dates, (kinds.is_date,)),
    (_times, (kinds.is_time,)),
    (_binaries, (*_BINARIES, kinds.is_fixed_size_binary)),
    (lambda array: _numbers(array.view(pa.int64())), (kinds.is_duration,)),
    (lambda array: ("", pa.nulls(len(array), _STRING)), (kinds.is_null,)),
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
