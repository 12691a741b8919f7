"""Sizes of Parquet columns once they are decoded, so that a few bytes do not fill the memory.

A dictionary page holds a text once, and a data page may repeat it a million times in a few bytes.
So a file's own sizes say nothing of what it decodes to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

# pyarrow ships no type hints, so its objects are Any here.
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import types as kinds

ROW_BYTES = 1024
"""Decoded bytes of a row that are never too many, however small the file is."""
_VALUE_BYTES = 64
# Memory that one value takes while it is written as JSON, besides its text.


class DecodedSize(NamedTuple):
    """Size of decoded columns."""

    bytes: int
    """Bytes of all values, those of dictionaries as often as they are used."""
    values: int
    """Number of values, elements of lists included."""

    @property
    def memory(self) -> int:
        """Estimated memory that the values take while they are written as JSON."""
        return self.bytes + _VALUE_BYTES * self.values


def decoded_size(arrays: Iterable[Any]) -> DecodedSize:
    """Measure arrays, which may be in dictionaries, without decoding them."""
    size = values = 0
    for array in arrays:
        values += len(array)
        if kinds.is_dictionary(array.type):
            size += _repeated_bytes(array)
        elif kinds.is_nested(array.type):
            inner = decoded_size(_children(array))
            size, values = size + inner.bytes, values + inner.values
        else:
            size += array.nbytes
    return DecodedSize(size, values)


def slices(batch: Any, most_memory: int) -> Iterator[Any]:
    """Cut a record batch into parts that take `most_memory` each, or are a single row."""
    if batch.num_rows < 2 or decoded_size(batch.columns).memory <= most_memory:
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
    return bool(
        kinds.is_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_string(kind)
        or kinds.is_large_binary(kind)
    )


def _children(array: Any) -> list[Any]:
    """Return the arrays that a nested array consists of; none for one that is not nested."""
    kind = array.type
    if kinds.is_map(kind):
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return [each.slice(first, last - first) for each in (array.keys, array.items)]
    if kinds.is_struct(kind):
        return list(array.flatten())
    return [array.flatten()] if kinds.is_nested(kind) else []
