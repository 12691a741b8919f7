"""INT96 timestamps of Parquet, and dates of no year from 1 to 9999, against the file's own bytes.

The judge is the Julian day's definition, not pyarrow: its readers overflow or lose digits.
"""

from __future__ import annotations

import io
import json
import random
import struct

import pyarrow as pa
import pytest
from pyarrow import parquet

from ddbload.dynamodb.attribute_values import check_value
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.source.parquet.arrow_to_ddb_json import values
from ddbload.source.parquet.parquet_lines import ParquetLines
from tests.unit.source.memory_source import MemorySource

A_DAY = 86_400 * 10**9
UNIX_EPOCH = 2_440_588
NULL = {"NULL": True}
# Nanoseconds since 1970 that mark the values to replace, and how a file has them.
FIRST_MARK = 1_000_000_007


def bytes_of(nanoseconds: int, julian_day: int) -> bytes:
    return struct.pack("<qi", nanoseconds, julian_day)


def text_of(raw: bytes) -> str:
    """Write 12 bytes as ISO 8601, by Richards' algorithm for Julian days."""
    nanoseconds, day = struct.unpack("<qi", raw)
    f = day + 1401 + (((4 * day + 274277) // 146097) * 3) // 4 - 38
    e = 4 * f + 3
    h = 5 * (e % 1461 // 4) + 2
    in_month = h % 153 // 5 + 1
    month = (h // 153 + 2) % 12 + 1
    year = e // 1461 - 4716 + (14 - month) // 12
    seconds, fraction = divmod(nanoseconds, 10**9)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{year:04d}-{month:02d}-{in_month:02d}T{clock}.{fraction:09d}"


def patched(table: pa.Table, wanted: list[bytes], **options) -> bytes:
    """Write a table whose timestamps are marks from 0 on, and put other bytes in their places."""
    buffer = io.BytesIO()
    parquet.write_table(
        table,
        buffer,
        use_deprecated_int96_timestamps=True,
        compression="none",
        **{"use_dictionary": False, **options},
    )
    data = buffer.getvalue()
    for number, raw in enumerate(wanted):
        mark = bytes_of(FIRST_MARK + number, UNIX_EPOCH)
        assert data.count(mark) == 1
        data = data.replace(mark, raw)
    return data


def marks(count: int) -> list[int]:
    return [FIRST_MARK + number for number in range(count)]


def rows_of(data: bytes) -> list[dict]:
    source = ParquetLines(MemorySource(data))
    return [
        json.loads(line)["Item"]
        for line in b"".join(source.stream(0, None, 4096)).split(b"\n")[:-1]
    ]


def is_rejected(value: dict) -> bool:
    with pytest.raises(BadValue, match="year") as caught:
        check_value(value)
    return caught.value.cause == "not_a_time"


def test_int96_of_any_day_is_the_text_of_its_bytes():
    some = random.Random(7)
    wanted = [
        bytes_of(some.randrange(A_DAY), some.randrange(1_721_426, 5_373_485)) for _ in range(300)
    ]
    data = patched(pa.table({"t": pa.array(marks(300), pa.timestamp("ns"))}), wanted)
    assert [row["t"] for row in rows_of(data)] == [{"S": text_of(raw)} for raw in wanted]


@pytest.mark.parametrize(
    "raw",
    [
        bytes_of(0, 5_373_485),  # 10000-01-01
        bytes_of(A_DAY - 1, 1_721_425),  # the day before 0001-01-01
        bytes_of(0, 2**31 - 1),
        bytes_of(0, -(2**31)),
        bytes_of(0, 0),
        bytes_of(-1, 1_721_426),
        bytes_of(2**63 - 1, 5_373_484),
    ],
)
def test_int96_beyond_the_years_1_to_9999_is_a_reject(raw):
    data = patched(pa.table({"t": pa.array(marks(1), pa.timestamp("ns"))}), [raw])
    ((value,),) = (row.values() for row in rows_of(data))
    assert is_rejected(value)


def test_int96_is_read_within_lists_structs_and_maps():
    stamp = pa.timestamp("ns")
    first, second, third, fourth, fifth, sixth, seventh = marks(7)
    table = pa.table(
        {
            "raw": pa.array([b"x" * 12, b"y" * 12], pa.binary(12)),
            "l": pa.array([[first, None], [second]], pa.list_(stamp)),
            "s": pa.array(
                [{"a": 1, "t": third, "b": b"z" * 12}, None],
                pa.struct([("a", pa.int8()), ("t", stamp), ("b", pa.binary(12))]),
            ),
            "m": pa.array([[(fourth, fifth)], []], pa.map_(stamp, stamp)),
            "d": pa.array(
                [[[{"t": sixth}]], [None, []]], pa.list_(pa.list_(pa.struct([("t", stamp)])))
            ),
            "t": pa.array([seventh, None], stamp),
        }
    )
    wanted = [bytes_of(number, 2_600_000 + number) for number in range(7)]
    texts = [{"S": text_of(raw)} for raw in wanted]
    one, two = rows_of(patched(table, wanted))
    assert one == {
        "raw": {"B": "eHh4eHh4eHh4eHh4"},
        "l": {"L": [texts[0], NULL]},
        "s": {"M": {"a": {"N": "1"}, "t": texts[2], "b": {"B": "enp6enp6enp6enp6"}}},
        "m": {"M": {texts[3]["S"]: texts[4]}},
        "d": {"L": [{"L": [{"M": {"t": texts[5]}}]}]},
        "t": texts[6],
    }
    assert two == {
        "raw": {"B": "eXl5eXl5eXl5eXl5"},
        "l": {"L": [texts[1]]},
        "s": NULL,
        "m": {"M": {}},
        "d": {"L": [NULL, {"L": []}]},
        "t": NULL,
    }


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_date_beyond_the_years_1_to_9999_is_a_reject(kind):
    days = [-719_163, -719_162, 2_932_896, 2_932_897]
    whole, a_day = (pa.int32(), 1) if kind == pa.date32() else (pa.int64(), 86_400_000)
    found = [
        json.loads(text)
        for text in values(pa.array([d * a_day for d in days], whole).view(kind)).to_pylist()
    ]
    assert found[1:3] == [{"S": "0001-01-01"}, {"S": "9999-12-31"}]
    assert is_rejected(found[0])
    assert is_rejected(found[3])
