"""Files whose footers and page headers disagree: bombs that pyarrow alone would let explode."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet

from ddbload.errors import DamagedParquet, DdbloadError, ExpansionTooLarge, UnsupportedFormat
from ddbload.source.parquet.parquet_bytes import ColumnPages, GroupPages
from ddbload.source.parquet.parquet_lines import ParquetLines
from tests.unit.source import made_parquet as made
from tests.unit.source.made_parquet import Says, made_file, page
from tests.unit.source.memory_source import MemorySource

READ = """
import sys
from ddbload.errors import DdbloadError
from ddbload.source.parquet.parquet_lines import ParquetLines
from tests.unit.source.memory_source import MemorySource
try:
    list(ParquetLines(MemorySource(sys.stdin.buffer.read())).stream(0, None, 1000))
except DdbloadError as error:
    print(error.name)
"""
SEVEN = struct.pack("<q", 7)
SEVEN_DICTIONARY = page(made.DICTIONARY_PAGE, SEVEN, 1, made.PLAIN)


def read(data: bytes, **options) -> bytes:
    return b"".join(ParquetLines(MemorySource(data), **options).stream(0, None, 1 << 20))


def most_memory(data: bytes, error: type[DdbloadError], words: str, **options) -> int:
    """Read a file that is refused, and return the most memory that Arrow took, in MiB."""
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(error, match=words):
            read(data, **options)
    finally:
        peak = pool.max_memory() >> 20
        pa.set_memory_pool(before)
    return peak


def uses_of_seven(count: int) -> bytes:
    return page(made.DATA_PAGE, made.indices(count), count, made.RLE_DICTIONARY)


def list_of(count: int, value: bytes) -> list[bytes]:
    """Make the pages of one row, a list of equal values."""
    body = made.levels((1, 0), (count - 1, 1)) + made.levels((count, 1)) + made.indices(count)
    return [
        page(made.DICTIONARY_PAGE, value, 1, made.PLAIN),
        page(made.DATA_PAGE, body, count, made.RLE_DICTIONARY),
    ]


def test_row_group_with_more_rows_than_the_file_is_damage():
    """Two billion rows of 165 bytes, of which the file tells three."""
    says = Says(2**31 - 1, rows_of_file=3)
    data = made_file([SEVEN_DICTIONARY, uses_of_seven(2**31 - 1)], says, kind=made.INT64)
    with pytest.raises(DamagedParquet, match="another number of rows than the file"):
        ParquetLines(MemorySource(data))


def test_pages_larger_than_the_column_are_damage():
    size = 20 * 1024 * 1024
    large = page(made.DICTIONARY_PAGE, struct.pack("<I", size) + bytes(size), 1, made.PLAIN)
    data = made_file([large, uses_of_seven(1)], Says(1))
    assert most_memory(data, DamagedParquet, "larger than the file's metadata say") < 10


def test_columns_larger_than_their_row_group_are_a_bomb():
    says = Says(1, size=2**30, size_of_group=100)
    data = made_file([SEVEN_DICTIONARY, uses_of_seven(1)], says, kind=made.INT64)
    with pytest.raises(ExpansionTooLarge):
        read(data)


def test_texts_that_share_their_beginnings_take_little_memory():
    """4,096 texts of 100 KB each, in a file of 300 bytes."""
    data = made_file(
        [made.sharing_texts(4096, 100_000)],
        Says(4096, size=103_000),
        encodings=(made.DELTA_BYTE_ARRAY,),
    )
    assert len(data) < 700
    assert most_memory(data, ExpansionTooLarge, "200 times") < 64


def test_lists_of_long_fixed_values_are_a_bomb():
    data = made_file(
        list_of(20_000, bytes(4000)),
        Says(20_000, rows=1, size=5000),
        kind=made.FIXED,
        repetition=made.REPEATED,
        length=4000,
    )
    assert most_memory(data, ExpansionTooLarge, "200 times") < 10


def test_columns_with_the_same_bytes_are_damage():
    """Of two columns that begin at one byte, the headers would be compared with one."""
    data = made_file([SEVEN_DICTIONARY, uses_of_seven(3)], Says(3, columns=2), kind=made.INT64)
    with pytest.raises(DamagedParquet, match="two columns have the same bytes"):
        read(data)


def test_metadata_that_end_pyarrow_are_damage():
    """Sizes of texts in a column of numbers; one changed bit of a footer can do it."""
    says = Says(3, text_bytes=5)
    data = made_file([SEVEN_DICTIONARY, uses_of_seven(3)], says, kind=made.INT64)
    words = subprocess.run(
        [sys.executable, "-c", READ], input=data, capture_output=True, check=False
    )
    assert words.stdout.decode().startswith("DamagedParquet"), words.stderr.decode()[-500:]


# The headers themselves.


def written(version: str) -> bytes:
    data = io.BytesIO()
    table = pa.table({"a": [f"text {n % 50}" for n in range(3000)], "b": [[1, 2], []] * 1500})
    parquet.write_table(
        table, data, data_page_size=500, data_page_version=version, write_page_checksum=True
    )
    return data.getvalue()


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 20])
def test_headers_are_found_however_the_bytes_are_read(version, piece):
    data = written(version)
    group = parquet.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    columns = []
    for place in range(group.num_columns):
        column = group.column(place)
        start = column.dictionary_page_offset
        size, values = column.total_uncompressed_size, column.num_values
        columns.append(ColumnPages(start, column.total_compressed_size, values, size))
    pages = GroupPages("file", columns)
    for begin in range(0, len(data), piece):
        pages.read(begin, data[begin : begin + piece])
    for each in columns:
        assert each.seen_values == each.values
        assert each.size * 0.9 < each.seen_size <= each.size
        assert each.next == each.start + each.length


def test_any_bytes_are_headers_or_a_named_error():
    rng = random.Random(3)
    sound = page(made.DATA_PAGE, SEVEN, 1, made.PLAIN)
    refused = 0
    for _ in range(3000):
        data = bytearray(sound[:40])
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.choice((0, 0x19, 0x1B, 0x1C, rng.randrange(256)))
        try:
            ColumnPages(0, 100, 1, 100).read(0, bytes(data), "file")
        except (DamagedParquet, UnsupportedFormat):
            refused += 1
    assert refused > 500
