"""Parquet rows as lines of DynamoDB JSON, compared with the Python values written."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import io
import json
import random
import subprocess
import sys
from itertools import pairwise

import pyarrow as pa
import pytest
from pyarrow import parquet

from ddbload.dynamodb.attribute_values import check_value
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.errors import (
    DamagedParquet,
    ExpansionTooLarge,
    ExtraMissing,
    RowTooLong,
    UnsupportedFormat,
)
from ddbload.reading.open_sources import open_parquet
from ddbload.rows.blocks import RowBytes
from ddbload.rows.file_signatures import LONGEST_COMPRESSION_SIGNATURE
from ddbload.source.parquet import parquet_lines as reading
from ddbload.source.parquet.arrow_to_ddb_json import values
from ddbload.source.parquet.parquet_lines import ParquetLines
from tests.unit.source.memory_source import MemorySource

D = decimal.Decimal


def packed(table: pa.Table, **options) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, **options)
    return buffer.getvalue()


def read(data: bytes, start: int = 0, end: int | None = None, piece_bytes: int = 4096, **options):
    source = ParquetLines(MemorySource(data), **options)
    pieces = list(source.stream(start, end, piece_bytes))
    assert all(1 <= len(piece) <= piece_bytes for piece in pieces)
    source.close()
    return b"".join(pieces)


def items(array: pa.Array, **options) -> list:
    lines = read(packed(pa.table({"x": array}), **options)).split(b"\n")
    assert lines.pop() == b""
    return [json.loads(line)["Item"]["x"] for line in lines]


NULL = {"NULL": True}

# One value of each kind, and how it is written.
KINDS = {
    "int8": (pa.int8(), [-128, 127], [{"N": "-128"}, {"N": "127"}]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1], [{"N": str(-(2**63))}, {"N": str(2**63 - 1)}]),
    "uint64": (pa.uint64(), [2**64 - 1], [{"N": "18446744073709551615"}]),
    "float32": (pa.float32(), [0.1, 16777216.0], [{"N": "0.1"}, {"N": "16777216"}]),
    "float16": (pa.float16(), [0.5], [{"N": "0.5"}]),
    "bool": (pa.bool_(), [True, False], [{"BOOL": True}, {"BOOL": False}]),
    "string": (pa.string(), ['"\\\n\x00%s', "é😀"], [{"S": '"\\\n\x00%s'}, {"S": "é😀"}]),
    "large string": (pa.large_string(), ["", "x"], [{"S": ""}, {"S": "x"}]),
    "binary": (pa.binary(), [b"\xff\0", b""], [{"B": "/wA="}, {"B": ""}]),
    "large binary": (pa.large_binary(), [b"a"], [{"B": "YQ=="}]),
    "fixed binary": (pa.binary(2), [b"ab"], [{"B": "YWI="}]),
    "decimal": (
        pa.decimal128(38, 2),
        [D("1.20"), D("-0.05"), D(10) ** 35],
        [{"N": "1.20"}, {"N": "-0.05"}, {"N": "1" + "0" * 35 + ".00"}],
    ),
    "wide decimal": (pa.decimal256(70, 0), [D("1" * 60)], [{"N": "1" * 60}]),
    "whole seconds": (pa.timestamp("s"), [0, -1], None),
    "milliseconds": (pa.timestamp("ms"), [1, -1], None),
    "microseconds": (pa.timestamp("us"), [1, 10**15, -1], None),
    "nanoseconds": (
        pa.timestamp("ns"),
        [1, -1],
        [{"S": "1970-01-01T00:00:00.000000001"}, {"S": "1969-12-31T23:59:59.999999999"}],
    ),
    "with a zone": (
        pa.timestamp("us", "Europe/Berlin"),
        [10**15 + 1],
        [{"S": "2001-09-09T01:46:40.000001Z"}],
    ),
    "date32": (pa.date32(), [0, 59, -1, 19782], None),
    "date64": (pa.date64(), [0, 86_400_000, -86_400_000], None),
    "time32": (pa.time32("ms"), [0, 86_399_999], [{"S": "00:00:00.000"}, {"S": "23:59:59.999"}]),
    "time64": (pa.time64("ns"), [3_600_000_000_001], [{"S": "01:00:00.000000001"}]),
    "duration": (pa.duration("s"), [5], [{"N": "5"}]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["x", "y", "x"], None),
    "list": (
        pa.list_(pa.int64()),
        [[1, None], [], [2]],
        [{"L": [{"N": "1"}, NULL]}, {"L": []}, {"L": [{"N": "2"}]}],
    ),
    "large list": (pa.large_list(pa.string()), [["a"]], [{"L": [{"S": "a"}]}]),
    "fixed list": (pa.list_(pa.int8(), 2), [[1, 2]], [{"L": [{"N": "1"}, {"N": "2"}]}]),
    "list of lists": (
        pa.list_(pa.list_(pa.bool_())),
        [[[True], None, []]],
        [{"L": [{"L": [{"BOOL": True}]}, NULL, {"L": []}]}],
    ),
    "struct": (
        pa.struct([("a", pa.int64()), ('"%', pa.list_(pa.string()))]),
        [{"a": 1, '"%': None}, {"a": None, '"%': ["x"]}],
        [{"M": {"a": {"N": "1"}, '"%': NULL}}, {"M": {"a": NULL, '"%': {"L": [{"S": "x"}]}}}],
    ),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        [[("k", 1), ('"', None)], []],
        [{"M": {"k": {"N": "1"}, '"': NULL}}, {"M": {}}],
    ),
    "map by number": (
        pa.map_(pa.int32(), pa.date32()),
        [[(-1, dt.date(2020, 1, 1))]],
        [{"M": {"-1": {"S": "2020-01-01"}}}],
    ),
    "map by truth": (pa.map_(pa.bool_(), pa.int8()), [[(True, 1)]], [{"M": {"true": {"N": "1"}}}]),
}


def _iso(kind: pa.DataType, value: int) -> dict:
    """Encode values with Arrow and the standard library."""
    if pa.types.is_dictionary(kind):
        return {"S": value}
    found = pa.scalar(value, kind).as_py()
    if isinstance(found, dt.datetime):
        unit = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}[kind.unit]
        return {"S": found.isoformat(timespec=unit)}
    return {"S": found.isoformat()}


@pytest.mark.parametrize("name", KINDS)
def test_values_of_each_type_are_encoded(name):
    kind, given, expected = KINDS[name]
    expected = expected or [_iso(kind, value) for value in given]
    array = pa.array([*given, None], kind)
    assert [json.loads(text) for text in values(array).to_pylist()] == [*expected, NULL]
    # A slice of an array has an offset to its elements.
    several = pa.array([*given, None, *given], kind).slice(len(given))
    assert [json.loads(text) for text in values(several).to_pylist()] == [NULL, *expected]
    assert values(array.slice(0, 0)).to_pylist() == []
    if name not in ("float16", "fixed list", "whole seconds"):
        assert items(array) == [*expected, NULL]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_floats_are_encoded_exactly(kind):
    some = random.Random(1)
    given = [some.uniform(-1, 1) * 10.0 ** some.randrange(-30, 30) for _ in range(2000)]
    array = pa.array([*given, 5e-324, 1.7976931348623157e308, 0.0, -0.0, 0.1, 1.0], kind)
    written = [json.loads(text)["N"] for text in values(array).to_pylist()]
    assert pa.array([float(text) for text in written], kind) == array
    assert max(len(text.lstrip("-0.").split("e")[0]) for text in written) <= 18


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_beyond_dynamodb_are_kept(value):
    assert items(pa.array([1.5, value])) == [{"N": "1.5"}, {"N": str(value)}]


def test_nulls_in_lists_of_a_fixed_length_are_kept():
    rows = [[[None], [None, None]], [[], [None]]]
    array = pa.array(rows, pa.list_(pa.list_(pa.null()), 2))
    expected = [{"L": [{"L": [NULL] * len(each)} for each in row]} for row in rows]
    assert [json.loads(text) for text in values(array).to_pylist()] == expected


def test_rows_of_nulls_alone_are_kept():
    data = packed(pa.table({"a": ["x", None, None], "b": pa.array([None, None, 1], pa.int8())}))
    (rows,) = ParquetLines(MemorySource(data)).stream(0, None, 1 << 20)
    assert isinstance(rows, RowBytes)
    assert rows.values is not None
    *_, items_of, _ = rows.values
    found = ['{"Item":{"a":{"S":"x"}}}', '{"Item":{}}', '{"Item":{"b":{"N":"1"}}}']
    assert items_of() == found


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1.5, 0.0, 9.9e125, 1e-130]), "N"),
        (pa.array([float("nan")]), ""),
        (pa.array([1e126]), ""),
        (pa.array([9e-131]), ""),
        (pa.array([[1.5], [None]]), "L"),
        (pa.array([[1.5], [float("inf")]]), ""),
        (pa.array([{"a": 1}]), "M"),
        (pa.array([{"": 1}]), ""),
        (pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8())), ""),
        (pa.array([{"a": {"b": [1e300]}}]), ""),
    ],
)
def test_values_that_dynamodb_may_refuse_are_to_be_checked(array, kind):
    (rows,) = ParquetLines(MemorySource(packed(pa.table({"a": array})))).stream(0, None, 1 << 20)
    assert isinstance(rows, RowBytes)
    assert rows.values is not None
    assert rows.values[1] == (kind,)


def test_pandas_is_not_imported(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(packed(pa.table({"a": ["x"], "b": [1.5], "c": [b"x"], "d": [[1]]})))
    code = (
        "import sys; from ddbload.cli.main import main\n"
        "try: main()\nfinally: assert 'pyarrow' in sys.modules and 'pandas' not in sys.modules"
    )
    arguments = ["convert", str(path), str(tmp_path / "out"), "--quiet"]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)


def test_invalid_utf8_is_kept():
    raw = pa.array([b"a\xff", None, b"b"])
    column = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    lines = read(packed(pa.table({"x": column}))).splitlines()
    assert lines == [
        b'{"Item":{"x":{"S":"a\xff"}}}',
        b'{"Item":{"x":{"NULL":true}}}',
        b'{"Item":{"x":{"S":"b"}}}',
    ]


def test_row_becomes_an_item():
    table = pa.table({"b": [1, 2], "%s\n": ["x", None], "a": [[True], []]})
    lines = read(packed(table)).splitlines()
    assert lines[0] == b'{"Item":{"b":{"N":"1"},"%s\\n":{"S":"x"},"a":{"L":[{"BOOL":true}]}}}'
    assert json.loads(lines[1]) == {"Item": {"b": {"N": "2"}, "%s\n": NULL, "a": {"L": []}}}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_time_that_no_day_has_is_a_reject(unit):
    kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    whole = pa.int32() if unit in ("s", "ms") else pa.int64()
    a_day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    counts = [-a_day // 6, -1, 0, a_day - 1, a_day, a_day + 3600]
    keys = pa.array(counts, whole).view(kind)
    first, second, midnight, last, *others = [json.loads(text) for text in values(keys).to_pylist()]
    assert [midnight["S"][:8], last["S"][:8]] == ["00:00:00", "23:59:59"]
    for value in (first, second, *others):
        with pytest.raises(BadValue) as caught:
            check_value(value)
        assert caught.value.cause == "not_a_time"
    # The key of a map, beside keys that are times.
    offsets = pa.array([0, 1, 3], pa.int32())
    map_keys = pa.MapArray.from_arrays(offsets, keys.slice(1, 3), pa.array([1, 2, 3]))
    bad, good = values(map_keys).to_pylist()
    assert check_value(json.loads(good))
    with pytest.raises(BadValue, match="before 00:00:00"):
        check_value(json.loads(bad))


def test_unsupported_type_in_a_file_is_unsupported_format():
    data = packed(pa.table({"x": pa.array([[([1], 2)]], pa.map_(pa.list_(pa.int8()), pa.int8()))}))
    with pytest.raises(UnsupportedFormat, match="row group 0"):
        read(data)


# Ranges and row groups.


def table(rows: int = 1000) -> pa.Table:
    some = random.Random(rows)
    return pa.table(
        {
            "id": list(range(rows)),
            "name": [some.choice(["é", "x" * 20, None]) for _ in range(rows)],
            "raw": [some.randbytes(3) for _ in range(rows)],
        }
    )


def expected_lines(rows: int) -> bytes:
    lines = []
    for row in table(rows).to_pylist():
        name = NULL if row["name"] is None else {"S": row["name"]}
        raw = {"B": base64.b64encode(row["raw"]).decode()}
        item = {"id": {"N": str(row["id"])}, "name": name, "raw": raw}
        lines.append(json.dumps({"Item": item}, separators=(",", ":"), ensure_ascii=False) + "\n")
    return "".join(lines).encode()


LINES = expected_lines(1000)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_all_compressions_are_read(compression):
    assert read(packed(table(), compression=compression)) == LINES


@pytest.mark.parametrize(
    ("start", "end"), [(0, 1), (5, 5), (100, 20_000), (30_000, None), (len(LINES), None)]
)
def test_stream_returns_exactly_the_range(start, end):
    data = packed(table(), row_group_size=300)
    assert read(data, start, end, 999) == LINES[start:end]


def test_row_groups_are_read_independently():
    data = packed(table(), row_group_size=300)
    source = ParquetLines(MemorySource(data))
    assert (source.groups, source.rows, source.columns) == (4, 1000, ("id", "name", "raw"))
    assert source.name == "some file"
    parts = [read(data, groups=(group, group + 1)) for group in range(4)]
    assert b"".join(parts) == LINES
    assert [part.count(b"\n") for part in parts] == [300, 300, 300, 100]


@pytest.mark.parametrize("least", [1, 5000, 10**9])
def test_row_group_ranges_cover_each_row_group_once(least):
    data = packed(table(), row_group_size=100)
    source = ParquetLines(MemorySource(data))
    portions = list(source.row_group_ranges(least))
    assert len(portions) == {1: 10, 5000: 4, 10**9: 1}[least]
    assert portions[0][0] == 0
    assert portions[-1][1] == 10
    assert all(one[1] == other[0] for one, other in pairwise(portions))
    assert 0.99 * len(data) < sum(size for _, _, size in portions) <= len(data)
    assert b"".join(read(data, groups=portion[:2]) for portion in portions) == LINES
    before = [ParquetLines(MemorySource(data), portion[:2]).rows_before for portion in portions]
    assert before == [100 * first for first, _, _ in portions]


@pytest.mark.parametrize("rows", [0, 3])
def test_files_without_rows_or_columns_are_read(rows):
    assert read(packed(table(0))) == b""
    empty = pa.table({"x": list(range(rows))}).select([])
    assert read(packed(empty)) in (b"", b'{"Item":{}}\n' * rows)


# Errors.


def test_truncated_file_is_damaged():
    data = packed(table(20))
    for length in range(0, len(data), 7):
        with pytest.raises(DamagedParquet):
            read(data[:length])


def test_changed_bit_is_damage():
    data = packed(table(50), write_page_checksum=True, compression="none")
    pages = parquet.read_metadata(io.BytesIO(data)).row_group(0).total_byte_size
    some = random.Random(2)
    damaged = 0
    for _ in range(150):
        changed = bytearray(data)
        changed[some.randrange(4, pages)] ^= 1 << some.randrange(8)
        try:
            # Redundant fields and statistics in a page header do not affect rows.
            assert read(bytes(changed)) == expected_lines(50)
        except (DamagedParquet, UnsupportedFormat):
            damaged += 1
    assert damaged > 100


def test_error_message_does_not_quote_the_content():
    data = bytearray(packed(pa.table({"x": ["secret"] * 50}), write_page_checksum=True))
    data[30] ^= 255
    with pytest.raises(DamagedParquet) as caught:
        read(bytes(data))
    assert "secret" not in caught.value.message


def test_bomb_is_refused():
    zeros = pa.table({"x": pa.nulls(500_000, pa.int64()).fill_null(0)})
    data = packed(zeros, compression="zstd", use_dictionary=False)
    assert 200 * len(data) < 4_000_000
    with pytest.raises(ExpansionTooLarge, match="--max-expansion"):
        read(data)
    source = ParquetLines(MemorySource(data), max_expansion=None)
    assert sum(map(len, source.stream(0, 10**6, 4096))) == 10**6
    # Dictionary-encoded values do not count as expansion.
    assert read(packed(zeros)).count(b"\n") == 500_000


def test_footer_is_read_once_for_all_ranges_of_row_groups():
    class Listed(MemorySource):
        def __init__(self, data, etag, groups):
            super().__init__(data)
            version = {"bucket": "b", "key": "k", "size": len(data), "etag": etag}
            self.pinned = {**version, "row_groups": groups}

    one, other = packed(table(50)), packed(table(60))
    for data, etag, count in ((one, "1", 50), (other, "2", 60), (one, "1", 50)):
        assert ParquetLines(Listed(data, etag, [0, 1])).rows == count
    again = Listed(one, "1", [1, 2])
    open_parquet(again)
    # Only its signature.
    assert again.read == LONGEST_COMPRESSION_SIGNATURE


def test_missing_pyarrow_package_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "ddbload.source.parquet.parquet_lines")
    with pytest.raises(ExtraMissing, match="pipx inject ddbload pyarrow"):
        open_parquet(MemorySource(b"PAR1"))


# Random access.


def _repeated_text(rows: int, size: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * size]))


BOMBS = {
    "text": lambda: pa.table({"a": _repeated_text(2000, 30_000)}),
    "plain text": lambda: pa.table({"a": ["x" * 30_000] * 2000}),
    "text of fixed length": lambda: pa.table(
        {"a": pa.array([b"x" * 30_000] * 2000, pa.binary(30_000))}
    ),
    "list of texts": lambda: pa.table({"a": [["x" * 30_000] * 4000]}),
    "list of numbers": lambda: pa.table({"a": pa.array([[7] * 2_000_000], pa.list_(pa.int64()))}),
    "texts in a map": lambda: pa.table(
        {"a": pa.array([[("k", "x" * 30_000)] * 2000], pa.map_(pa.string(), pa.string()))}
    ),
    "texts in a struct": lambda: pa.table({"a": [{"b": "x" * 30_000}] * 2000}),
    "rows": lambda: pa.table({"a": pa.array([1] * 2_000_000, pa.int8())}),
}
"""Tables whose files have a few KB and decode to 16 MB and more; made when they are used."""


def _measured(data: bytes, most: int | None) -> int:
    """Read a file, and return the most memory that Arrow took, in MiB."""
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        for rows in ParquetLines(MemorySource(data), max_expansion=most).stream(0, None, 1 << 20):
            # As an encoder does.
            rows.values = None
    finally:
        peak = pool.max_memory() >> 20
        pa.set_memory_pool(before)
    return peak


@pytest.mark.parametrize("name", BOMBS)
def test_dictionary_bombs_are_refused(name):
    data = packed(BOMBS[name](), compression="zstd")
    assert len(data) < 20_000
    with pytest.raises(ExpansionTooLarge, match="200 times the file's size"):
        _measured(data, 200)


@pytest.mark.parametrize("name", ["text", "plain text", "text of fixed length"])
def test_dictionary_bombs_take_little_memory_where_they_are_allowed(name):
    assert _measured(packed(BOMBS[name](), compression="zstd"), None) < 40


def test_row_that_no_item_could_hold_is_refused():
    with pytest.raises(RowTooLong, match="row group 0 has a row that takes more than 64 MiB"):
        _measured(packed(BOMBS["list of texts"](), compression="zstd"), None)


@pytest.mark.parametrize("arrow_schema", [True, False])
def test_repeated_values_are_read_as_written(arrow_schema, monkeypatch):
    """The limits decide how columns are read, and change no line."""
    texts = [None if n % 7 == 0 else f"t{n % 5}" * (n % 3) for n in range(500)]
    table = pa.table(
        {
            "a": pa.array(texts).dictionary_encode(),
            "b": pa.array([f"unique {n}" for n in range(500)]),
            "c": [texts[n : n + n % 4] for n in range(500)],
            "d": [{"e": text, "f": text} for text in texts],
            "g": pa.array([[("k", text)] for text in texts], pa.map_(pa.string(), pa.string())),
        }
    )
    data = packed(table, store_schema=arrow_schema, row_group_size=200)
    expected = b"".join(ParquetLines(MemorySource(data)).stream(0, None, 1000))
    monkeypatch.setattr(reading, "_DENSE_BYTES", 0)
    monkeypatch.setattr(reading, "_JSON_BYTES", 1000)
    found = b"".join(ParquetLines(MemorySource(data)).stream(0, None, 1000))
    assert found == expected
    assert [json.loads(line)["Item"]["b"] for line in found.splitlines()] == [
        {"S": f"unique {n}"} for n in range(500)
    ]


def test_sparse_and_repetitive_files_are_no_bombs():
    """Columns of nulls, or of few different texts, take next to nothing in a file."""
    rows = 20_000
    table = pa.table(
        {
            "id": [f"id-{n}" for n in range(rows)],
            **{f"null {n}": pa.nulls(rows, pa.string()) for n in range(20)},
            **{f"text {n}": pa.array(["some category"] * rows) for n in range(20)},
        }
    )
    data = packed(table, compression="zstd")
    pieces = ParquetLines(MemorySource(data), max_expansion=200).stream(0, None, 1 << 20)
    assert sum(piece.count(b"\n") for piece in pieces) == rows
