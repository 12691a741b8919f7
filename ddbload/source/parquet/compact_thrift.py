"""Thrift's compact protocol, in which Parquet writes its footer and its page headers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

# Types of values.
_TRUE, _FALSE, _BYTE, _I16, I32, _I64, _DOUBLE, _BINARY, LIST, _SET, _MAP, STRUCT = range(1, 13)
BOOLEANS = (_TRUE, _FALSE)
"""Types of a field whose value is in its type."""
_INTEGERS = (_I16, I32, _I64)
_MAX_DEPTH = 16
_MAX_VARINT_BYTES = 10


class CutShort(Exception):
    """The bytes end before the value does."""


class NotThrift(Exception):
    """The bytes are not of Thrift's compact protocol."""


def read_struct(data: bytes, position: int = 0, depth: int = 0) -> tuple[dict[int, object], int]:
    """Read a struct of Thrift's compact protocol: its integers and structs by field, and its end.

    Raises `CutShort` and `NotThrift`.
    """
    if depth > _MAX_DEPTH:
        raise NotThrift
    found: dict[int, object] = {}
    number = 0
    while True:
        kind, number, position = _field_head(data, position, number)
        if kind == _END:
            return found, position
        if kind in _INTEGERS:
            found[number], position = integer(data, position)
        elif kind == STRUCT:
            found[number], position = read_struct(data, position, depth + 1)
        elif kind not in BOOLEANS:
            position = skip(data, position, kind, depth)


_END = -1
"""Stands in place of a field's type at the end of a struct."""


def _field_head(data: bytes, position: int, before: int) -> tuple[int, int, int]:
    """Read the type, number and value position of a field; `_END` at the end of a struct."""
    head, position = byte(data, position)
    if head == 0:
        return _END, before, position
    kind, step = head & 0x0F, head >> 4
    if step:
        return kind, before + step, position
    number, position = integer(data, position)
    return kind, number, position


def read_fields(data: bytes, position: int) -> tuple[dict[int, tuple[int, bytes]], int]:
    """Read a struct as the type and the bytes of each field, and its end.

    Raises `CutShort` and `NotThrift`.
    """
    found: dict[int, tuple[int, bytes]] = {}
    number = 0
    while True:
        kind, number, position = _field_head(data, position, number)
        if kind == _END:
            return found, position
        end = position if kind in BOOLEANS else skip(data, position, kind)
        found[number] = kind, data[position:end]
        position = end


def of_fields(fields: Mapping[int, tuple[int, bytes]]) -> bytes:
    """Encode a struct, whose fields have numbers that are at most 15 apart."""
    made = bytearray()
    last = 0
    for number in sorted(fields):
        kind, value = fields[number]
        made.append((number - last) << 4 | kind)
        made += value
        last = number
    return bytes(made) + b"\0"


def of_integer(value: int) -> bytes:
    """Encode a number from 0 to 63."""
    return bytes([value << 1])


def skip(data: bytes, position: int, kind: int, depth: int = 0) -> int:
    """Skip a value, and return the position after it."""
    if depth > _MAX_DEPTH:
        raise NotThrift
    if kind in _INTEGERS:
        return integer(data, position)[1]
    if kind == STRUCT:
        return read_struct(data, position, depth + 1)[1]
    if kind in (_TRUE, _FALSE, _BYTE):
        return position + 1
    if kind == _DOUBLE:
        return position + 8
    if kind == _BINARY:
        length, position = varint(data, position)
        return position + length
    kinds: tuple[int, ...]
    if kind in (LIST, _SET):
        head, position = byte(data, position)
        count, kinds = head >> 4, (head & 0x0F,)
        if count == 15:
            count, position = varint(data, position)
    elif kind == _MAP:
        count, position = varint(data, position)
        if not count:
            return position
        head, position = byte(data, position)
        kinds = (head >> 4, head & 0x0F)
    else:
        raise NotThrift
    for _ in range(count):
        for each in kinds:
            position = skip(data, position, each, depth + 1)
            if position > len(data):
                raise CutShort
    return position


def byte(data: bytes, position: int) -> tuple[int, int]:
    """Read a byte, and return it with the position after it. Raises `CutShort`."""
    if position >= len(data):
        raise CutShort
    return data[position], position + 1


def varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number without a sign. Raises `CutShort` and `NotThrift`."""
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        part, position = byte(data, position)
        value |= (part & 0x7F) << 7 * place
        if part < 0x80:
            return value, position
    raise NotThrift


def integer(data: bytes, position: int) -> tuple[int, int]:
    """Read a number whose sign is its last bit."""
    value, position = varint(data, position)
    return (value >> 1) ^ -(value & 1), position
