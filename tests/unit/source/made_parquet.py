"""Parquet files of one column made byte by byte, so that their metadata can say anything."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

INT64, BYTE_ARRAY, FIXED = 2, 6, 7
PLAIN, RLE, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 0, 3, 7, 8
DATA_PAGE, DICTIONARY_PAGE = 0, 2
REQUIRED, REPEATED = 0, 2
_GZIP = 2
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def zigzag(number: int) -> bytes:
    return varint((number << 1 ^ number >> 63) & (1 << 64) - 1)


def struct_of(**fields: Any) -> bytes:
    """Write a struct of Thrift's compact protocol; `i5=7` is field 5, a number."""
    made, last = b"", 0
    for name, value in fields.items():
        kind, number = name[0], int(name[1:])
        code, written = {
            "i": lambda v: (_I32, zigzag(v)),
            "l": lambda v: (_I64, zigzag(v)),
            "b": lambda v: (_BINARY, varint(len(v)) + v),
            "s": lambda v: (_STRUCT, v),
            "a": lambda v: (_LIST, bytes([len(v[1]) << 4 | v[0]]) + b"".join(v[1])),
        }[kind](value)
        made += bytes([(number - last) << 4 | code]) + written
        last = number
    return made + b"\0"


def levels(*runs: tuple[int, int]) -> bytes:
    """Write repetition or definition levels: pairs of count and level, with their length."""
    made = b"".join(varint(count << 1) + bytes([level]) for count, level in runs)
    return struct.pack("<I", len(made)) + made


def indices(count: int) -> bytes:
    """Write as many uses of a dictionary's first value."""
    return b"\x01" + varint(count << 1) + b"\0"


def page(kind: int, body: bytes, values: int, encoding: int, says: int | None = None) -> bytes:
    """Make a page. `says`: the decompressed bytes that its header tells, instead of the true."""
    writer = zlib.compressobj(9, wbits=31)
    packed = writer.compress(body) + writer.flush()
    size = len(body) if says is None else says
    if kind == DICTIONARY_PAGE:
        about = {"s7": struct_of(i1=values, i2=PLAIN)}
    else:
        about = {"s5": struct_of(i1=values, i2=encoding, i3=RLE, i4=RLE)}
    return struct_of(i1=kind, i2=size, i3=len(packed), **about) + packed


@dataclass
class Says:
    """What the footer says of the file."""

    values: int
    size: int = 1000
    rows: int | None = None
    rows_of_file: int | None = None
    size_of_group: int | None = None
    text_bytes: int | None = None
    """Bytes of all texts."""
    columns: int = 1
    """Columns, all with the same pages."""


def made_file(
    pages: list[bytes],
    says: Says,
    *,
    kind: int = BYTE_ARRAY,
    repetition: int = REQUIRED,
    length: int = 0,
    encodings: tuple[int, ...] = (PLAIN, RLE, RLE_DICTIONARY),
) -> bytes:
    """Make a file whose first page is a dictionary if there are two."""
    body = b"PAR1" + b"".join(pages)
    rows = says.values if says.rows is None else says.rows
    data_at = 4 if len(pages) == 1 else 4 + len(pages[0])
    dictionary = {"l11": 4} if len(pages) > 1 else {}
    columns, schema = [], [struct_of(b4=b"root", i5=says.columns)]
    for number in range(says.columns):
        name = b"c%d" % number
        meta = struct_of(
            i1=kind,
            a2=(_I32, [zigzag(each) for each in encodings]),
            a3=(_BINARY, [varint(len(name)) + name]),
            i4=_GZIP,
            l5=says.values,
            l6=says.size,
            l7=len(body) - 4,
            l9=data_at,
            **dictionary,
            **({} if says.text_bytes is None else {"s16": struct_of(l1=says.text_bytes)}),
        )
        columns.append(struct_of(l2=4, s3=meta))
        fixed = {"i2": length} if length else {}
        schema.append(struct_of(i1=kind, **fixed, i3=repetition, b4=name))
    size = says.size * says.columns if says.size_of_group is None else says.size_of_group
    group = struct_of(a1=(_STRUCT, columns), l2=size, l3=rows)
    whole = rows if says.rows_of_file is None else says.rows_of_file
    footer = struct_of(i1=1, a2=(_STRUCT, schema), l3=whole, a4=(_STRUCT, [group]))
    return body + footer + struct.pack("<I", len(footer)) + b"PAR1"


def delta(first: int, second: int, count: int) -> bytes:
    """Write `first`, `second` and then `second` again, in DELTA_BINARY_PACKED."""
    step = second - first
    width, least = abs(step).bit_length(), min(step, 0)
    deltas = [step - least] + [-least] * 127
    blocks = b""
    for begin in range(0, 128, 32):
        bits = sum(each << width * place for place, each in enumerate(deltas[begin : begin + 32]))
        blocks += bits.to_bytes(4 * width, "little")
    more = (max(0, count - 129) + 127) // 128 * (zigzag(0) + bytes(4))
    head = varint(128) + varint(4) + varint(count) + zigzag(first)
    return head + zigzag(least) + bytes([width] * 4) + blocks + more


def sharing_texts(count: int, size: int) -> bytes:
    """Make a page of equal texts, each of which takes its whole content from the one before."""
    body = delta(0, size, count) + delta(size, 0, count) + b"x" * size
    return page(DATA_PAGE, body, count, DELTA_BYTE_ARRAY)
