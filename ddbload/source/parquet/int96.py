"""INT96 timestamps of Parquet, read as their 12 bytes.

pyarrow makes them 64-bit timestamps: nanoseconds overflow before 1678 and after 2262, and coarser
units lose digits. So pyarrow gets a footer that calls such columns binary of 12 bytes, which is
how their pages are laid out.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

# pyarrow ships no type hints, so its objects are Any here.
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet
from pyarrow import types as kinds

from ddbload.source.parquet import compact_thrift as thrift

INT96_BYTES = 12
# Fields of FileMetaData and SchemaElement, and physical types (parquet.thrift).
_SCHEMA = 2
_TYPE, _TYPE_LENGTH, _CONVERTED, _LOGICAL = 1, 2, 6, 10
_NOTES = (_TYPE_LENGTH, _CONVERTED, 7, 8, _LOGICAL)
_INT96, _FIXED_LENGTH = 3, 7
_MAGIC = b"PAR1"


class Int96(pa.ExtensionType):  # type: ignore[misc]
    """Type of arrays of INT96 values, which are stored as 12 bytes each."""

    def __init__(self) -> None:
        super().__init__(pa.binary(INT96_BYTES), "ddbload.int96")

    def __arrow_ext_serialize__(self) -> bytes:
        """Return nothing: the type has no parameters."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Int96:
        """Make the type again."""
        del storage_type, serialized
        return cls()


def int96_columns(metadata: Any) -> tuple[bool, ...]:
    """Tell of each column of a file, nested ones included, if it is INT96."""
    schema = metadata.schema
    count = range(metadata.num_columns)
    return tuple(schema.column(place).physical_type == "INT96" for place in count)


def with_raw_int96(metadata: Any) -> Any:
    """Return a file's metadata with its INT96 columns as binary of 12 bytes."""
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)
    footer = _raw_schema(sink.getvalue()[len(_MAGIC) : -8])
    whole = _MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC
    return parquet.read_metadata(io.BytesIO(whole))


def mark_int96(batch: Any, columns: Sequence[bool]) -> Any:
    """Give the columns of a record batch that are INT96 the type `Int96`, also in nested ones."""
    leaves = iter(columns)
    arrays = [_marked(array, leaves) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _marked(array: Any, leaves: Iterator[bool]) -> Any:
    """Mark the INT96 values of an array, whose leaves are the next of all."""
    kind = array.type
    own = list(islice(leaves, _count_leaves(kind)))
    if not any(own):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return _marked(array.storage, iter(own))
    if not kinds.is_nested(kind):
        return pa.ExtensionArray.from_storage(Int96(), array)
    inner = iter(own)
    offset, buffers = array.offset, array.buffers()
    if kinds.is_struct(kind):
        # A field is cut as the struct is.
        fields = [_marked(array.field(place), inner) for place in range(kind.num_fields)]
        names = [kind.field(place).name for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, names, mask=array.is_null())
    if kinds.is_map(kind):
        keys, values = _marked(array.keys, inner), _marked(array.items, inner)
        entries = pa.StructArray.from_arrays([keys, values], ["key", "value"])
        made, children = pa.map_(keys.type, values.type), [entries]
    else:
        values = _marked(array.values, inner)
        children = [values]
        if kinds.is_fixed_size_list(kind):
            made = pa.list_(values.type, kind.list_size)
        else:
            made = (pa.large_list if kinds.is_large_list(kind) else pa.list_)(values.type)
    own_buffers = buffers[: 1 if kinds.is_fixed_size_list(kind) else 2]
    return pa.Array.from_buffers(made, len(array), own_buffers, offset=offset, children=children)


def _count_leaves(kind: Any) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        return _count_leaves(kind.storage_type)
    if kinds.is_nested(kind):
        return sum(_count_leaves(kind.field(place).type) for place in range(kind.num_fields))
    return 1


def _raw_schema(footer: bytes) -> bytes:
    """Rewrite the schema in a footer, and copy the rest."""
    position = number = 0
    while True:
        head, position = thrift.byte(footer, position)
        number += head >> 4
        if number == _SCHEMA:
            break
        position = thrift.skip(footer, position, head & 0x0F)
    head, position = thrift.byte(footer, position)
    count = head >> 4
    if count == 15:
        count, position = thrift.varint(footer, position)
    made = [footer[:position]]
    for _ in range(count):
        fields, end = thrift.read_fields(footer, position)
        is_int96 = fields.get(_TYPE) == (thrift.I32, thrift.of_integer(_INT96))
        made.append(_raw_element(fields) if is_int96 else footer[position:end])
        position = end
    return b"".join([*made, footer[position:]])


def _raw_element(fields: dict[int, tuple[int, bytes]]) -> bytes:
    """Make a schema element of 12 bytes from that of an INT96 column."""
    kept = {number: value for number, value in fields.items() if number not in _NOTES}
    length = (thrift.I32, thrift.of_integer(INT96_BYTES))
    kind = (thrift.I32, thrift.of_integer(_FIXED_LENGTH))
    return thrift.of_fields({**kept, _TYPE: kind, _TYPE_LENGTH: length})
