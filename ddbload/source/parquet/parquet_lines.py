"""Parquet rows as lines of DynamoDB JSON: one `{"Item": {...}}` per row, in file order.

The same file always gives the same lines, so a resumed run identifies a row by its byte offset in
them. Each row group can be read without those before it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

# pyarrow ships no type hints, so its objects are Any here.
from pyarrow import parquet  # type: ignore[import-untyped]

from ddbload.contracts.source import DEFAULT_MAX_EXPANSION
from ddbload.dynamodb.limits import MAX_COLUMNS
from ddbload.errors import (
    DamagedParquet,
    DdbloadError,
    DuplicateColumn,
    ExpansionTooLarge,
    RowTooLong,
    TooManyColumns,
    UnsupportedFormat,
)
from ddbload.source.decoding.compression import EXPANSION_ALLOWANCE_BYTES
from ddbload.source.decoding.decoded_source import ByteSource, DecodedSource, slice_pieces
from ddbload.source.parquet.arrow_to_ddb_json import (
    ROW_BYTES,
    decoded_size,
    lines,
    longest_value,
    slices,
)
from ddbload.source.parquet.parquet_bytes import (
    MAX_PAGE_BYTES,
    ColumnPages,
    GroupPages,
    SeekableSource,
    with_raw_int96,
)

MIN_RANGE_BYTES = 4 * 1024 * 1024
"""Decompressed column bytes below which a row group is merged with its neighbour."""

# Limits of one record batch. Its bytes are estimated from the row group's metadata, which does not
# include how often a dictionary's values are repeated.
_BATCH_CELLS = 64 * 1024
_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_ROWS = 4096
# Columns that may decode to more per batch are read dictionary-encoded.
_DENSE_BYTES = 16 * 1024 * 1024
# Memory of the rows that are converted to JSON together, and the maximum for one row, which is far
# above the size of an item.
_JSON_BYTES = 16 * 1024 * 1024
_MAX_ROW_MEMORY = 64 * 1024 * 1024
# Number of rows accepted in any file, however small.
_ALLOWED_ROWS = 1_000_000
# An encoding in which a value shares a prefix with the previous one. The length of its values is
# known only from the pages, and pyarrow cannot read it dictionary-encoded.
_SHARED_PREFIXES = "DELTA_BYTE_ARRAY"
_SHARING_ROWS = 16
MAX_SHARED_BYTES = 16 * 1024 * 1024
"""Maximum decompressed bytes of a page in that encoding."""
# Compressed bytes of a column that pyarrow reads at a time.
_BUFFER_BYTES = 64 * 1024

_VERSION_FIELDS = ("bucket", "key", "version_id", "etag", "path", "size", "mtime_ns", "inode")
# Footer of the last opened file, by its version: the metadata, and which columns are INT96 although
# declared as binary. Cached, because a chunked import opens the file once per range of row groups.
_FOOTERS: dict[str, tuple[Any, tuple[bool, ...]]] = {}


class ParquetLines(DecodedSource):
    """Rows of a Parquet file as lines of DynamoDB JSON. Offsets count bytes of these lines.

    `groups`: first row group to read, counted from 0, and the first one not to read; None reads
    all. Null becomes `{"NULL": true}`. Numbers that DynamoDB does not support, such as NaN, and
    text that is not UTF-8 are written unchanged, so that the row is rejected.

    Raises `DamagedParquet`, `DuplicateColumn`, `UnsupportedFormat`, `ExpansionTooLarge` (by the
    size of decompressed and decoded columns, before they become JSON), `RowTooLong`, and the errors
    of the inner source.
    """

    def __init__(
        self,
        inner: ByteSource,
        groups: Sequence[int] | None = None,
        *,
        max_expansion: int | None = DEFAULT_MAX_EXPANSION,
    ) -> None:
        super().__init__(inner, max_expansion=max_expansion)
        self._access = SeekableSource(inner)
        self._file: Any = self._call(self._open)
        schema = self._call(lambda: self._file.schema_arrow)
        self.columns: tuple[str, ...] = tuple(schema.names)
        """Names of the top-level columns, which become attributes."""
        if len(self.columns) > MAX_COLUMNS:
            raise TooManyColumns(
                f"{self.name} has {len(self.columns):,} columns, and may have {MAX_COLUMNS:,}"
            )
        if len(set(self.columns)) < len(self.columns):
            twice = next(name for name, count in Counter(self.columns).items() if count > 1)
            raise DuplicateColumn(f"{self.name}: two columns are called {twice!r}")
        metadata = self._file.metadata
        self.rows: int = metadata.num_rows
        """Number of rows in the whole file."""
        self.groups: int = metadata.num_row_groups
        """Number of row groups in the whole file."""
        self._first: int = 0 if groups is None else groups[0]
        self._after: int = self.groups if groups is None else groups[1]
        self._decoded = 0
        self._checked_group: int | None = None
        self._max_decoded = self._find_max_decoded(metadata, max_expansion)
        self._access.set_reader_count(metadata.num_columns)

    @property
    def plain(self) -> bool:
        """Always false: lines can only be made from the beginning of a row group."""
        return False

    @property
    def most_bytes(self) -> int | None:
        """Always None: a few bytes of the file may stand for any number of rows."""
        return None

    @property
    def rows_before(self) -> int:
        """Number of rows in the row groups before the first one to read."""
        metadata = self._file.metadata
        return sum(metadata.row_group(group).num_rows for group in range(self._first))

    def row_group_ranges(self, min_bytes: int = MIN_RANGE_BYTES) -> Iterator[tuple[int, int, int]]:
        """Merge small row groups into ranges of at least `min_bytes`, decompressed.

        Yields the first row group, the one after the last, and the approximate size in the file.
        """
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).total_byte_size for group in range(self.groups)]
        whole = max(1, sum(sizes))
        first = held = 0
        for group, size in enumerate(sizes, 1):
            held += size
            if held >= min_bytes or group == self.groups:
                yield first, group, self.inner.size * held // whole
                first, held = group, 0

    def stream(self, start: int, end: int | None, piece_bytes: int) -> Iterator[bytes]:
        """Yield the lines' bytes in [`start`, `end`) in pieces of at most `piece_bytes`.

        `end` None reads to the end. Lines before `start` are made and dropped.
        """
        yield from slice_pieces(self._lines(piece_bytes), 0, start, end, piece_bytes, self.name)

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)
        self.inner.close()

    def _find_max_decoded(self, metadata: Any, most: int | None) -> float:
        """Return the maximum decoded bytes of the row groups, besides 1 KB per row.

        Raises `ExpansionTooLarge` if the metadata states more.
        """
        if most is None:
            return float("inf")
        limit = max(EXPANSION_ALLOWANCE_BYTES, most * self.inner.size)
        groups = [metadata.row_group(group) for group in range(self.groups)]
        sizes = [each.total_byte_size for each in groups]
        if sum(each.num_rows for each in groups) != self.rows:
            raise DamagedParquet(
                f"{self.name}: its row groups have another number of rows than the file: it is"
                " damaged; write it again"
            )
        if sum(sizes) > limit or self.rows > max(_ALLOWED_ROWS, limit):
            raise self._too_large(most)
        self._refuse_long_lists(metadata, most, limit)
        share: float = sum(sizes[self._first : self._after]) / max(1, sum(sizes))
        return float(max(EXPANSION_ALLOWANCE_BYTES, most * self.inner.size * share))

    def _refuse_long_lists(self, metadata: Any, most: int, limit: int) -> None:
        schema = metadata.schema
        repeated = [
            place
            for place in range(metadata.num_columns)
            if schema.column(place).max_repetition_level
        ]
        if not repeated:
            return
        for group in range(self._first, self._after):
            found, columns = metadata.row_group(group), self._columns(group)
            # List elements take eight bytes or their fixed length each, but no bytes in the file if
            # all are equal.
            elements = sum(
                max(8, schema.column(place).length or 0)
                * max(0, columns[place].num_values - found.num_rows)
                for place in repeated
            )
            if elements > limit:
                raise self._too_large(most)

    def _too_large(self, most: int) -> ExpansionTooLarge:
        return ExpansionTooLarge(
            f"{self.name}: its columns decompress to more than {most} times the file's size,"
            " which is what bombs do; if the data are sound, allow more (--max-expansion; in a"
            " payload, max_expansion)"
        )

    @cached_property
    def _fixed_row_bytes(self) -> int:
        """Bytes of a row's fixed-length values, which a dictionary may repeat."""
        schema = self._file.schema
        lengths = (schema.column(place).length or 0 for place in range(len(schema)))
        return sum(max(0, length) for length in lengths)

    def _open(self, as_dictionaries: Sequence[str] = ()) -> Any:
        """Open the file. `as_dictionaries`: paths of columns to keep dictionary-encoded."""
        return parquet.ParquetFile(
            self._access,
            metadata=self._footer[0],
            read_dictionary=list(as_dictionaries),
            # Pre-buffering would hold a whole row group in memory, which may be a gigabyte.
            pre_buffer=False,
            buffer_size=_BUFFER_BYTES,
            page_checksum_verification=True,
        )

    @cached_property
    def _footer(self) -> tuple[Any, tuple[bool, ...]]:
        version = _version(self.inner)
        known = None if version is None else _FOOTERS.get(version)
        if known is None:
            metadata = parquet.read_metadata(self._access)
            columns = map(metadata.schema.column, range(metadata.num_columns))
            int96 = tuple(each.physical_type == "INT96" for each in columns)
            known = with_raw_int96(metadata) if any(int96) else metadata, int96
            if version is not None:
                _FOOTERS.clear()
                _FOOTERS[version] = known
        return known

    def _lines(self, piece_bytes: int) -> Iterator[bytes]:
        for group in range(self._first, self._after):
            for batch in self._batches(group):
                found = lines(batch, self._footer[1], piece_bytes)
                yield from self._call(lambda: list(found), group)  # noqa: B023 - used at once

    def _batches(self, group: int) -> Iterator[Any]:
        """Read a row group as record batches of bounded size."""
        self._access.pages = self._call(lambda: self._group_pages(group), group)
        rows = self._batch_rows(group)
        repeating = self._call(lambda: self._repeating_columns(group, rows), group)
        file = self._call(lambda: self._open(repeating)) if repeating else self._file
        batches = file.iter_batches(batch_size=rows, row_groups=[group], use_threads=False)
        left = self._file.metadata.row_group(group).num_rows
        while True:
            batch = self._call(lambda: next(batches, None), group)
            if batch is None:
                break
            left -= batch.num_rows
            size, memory = self._call(lambda: decoded_size(batch.columns), group)  # noqa: B023
            self._decoded += max(0, size - ROW_BYTES * batch.num_rows)
            if self._decoded > self._max_decoded and self._max_expansion is not None:
                raise self._too_large(self._max_expansion)
            if memory <= _JSON_BYTES:
                yield batch
                continue
            for part in self._call(lambda: list(slices(batch, _JSON_BYTES)), group):  # noqa: B023
                if decoded_size(part.columns)[1] > _MAX_ROW_MEMORY:
                    raise RowTooLong(
                        f"{self.name}, row group {group} has a row that takes more than"
                        f" {_MAX_ROW_MEMORY >> 20} MiB of memory; an item has up to 400 KB"
                    )
                yield part
        if left:
            # pyarrow may skip a page whose header is damaged.
            raise DamagedParquet(
                f"{self.name}, row group {group} has another number of rows than its metadata"
                " says: it is damaged; write it again"
            )

    def _columns(self, group: int) -> list[Any]:
        """Return the metadata of a row group's columns. Raises `DamagedParquet`.

        pyarrow aborts the process on invalid metadata, except while it reads. So a read is started
        that gets no bytes.
        """
        if self._checked_group != group:
            access = self._access
            access.is_blocked = True
            try:
                next(self._file.iter_batches(1, row_groups=[group], use_threads=False), None)
            except Exception as error:  # noqa: BLE001 - pyarrow raises many
                if access.failure is None:
                    raise DamagedParquet(
                        f"{self.name}, row group {group} has wrong metadata"
                        f" ({type(error).__name__}): it is damaged; write it again"
                    ) from None
            finally:
                access.is_blocked, access.failure = False, None
            self._checked_group = group
        found = self._file.metadata.row_group(group)
        return [found.column(place) for place in range(found.num_columns)]

    def _group_pages(self, group: int) -> GroupPages:
        """Return the pages of a row group by the footer, to check their headers against it."""
        columns = self._columns(group)
        size = sum(each.total_uncompressed_size for each in columns)
        if size > self._max_decoded and self._max_expansion is not None:
            raise self._too_large(self._max_expansion)
        return GroupPages(
            f"{self.name}, row group {group}",
            (
                ColumnPages(
                    _first_page(each),
                    each.total_compressed_size,
                    each.num_values,
                    each.total_uncompressed_size,
                    MAX_SHARED_BYTES if _SHARED_PREFIXES in each.encodings else MAX_PAGE_BYTES,
                )
                for each in columns
                if each.num_values > 0
            ),
        )

    def _repeating_columns(self, group: int, rows: int) -> list[str]:
        """Return the columns whose dictionaries could make a batch too large for memory.

        Reading the first row gives the dictionary. Values outside it take the same memory as in the
        file.
        """
        found, columns = self._file.metadata.row_group(group), self._columns(group)
        # Maximum values of one batch; all elements of lists may be in one row.
        counts = {
            each.path_in_schema: each.num_values if each.num_values > found.num_rows else rows
            for each in columns
            if each.physical_type == "BYTE_ARRAY" and each.has_dictionary_page
        }
        suspects = [
            each.path_in_schema
            for each in columns
            if counts.get(each.path_in_schema, 0) * each.total_uncompressed_size > _DENSE_BYTES
        ]
        repeating = []
        if suspects:
            file = self._open(suspects)
            for path in suspects:
                first = next(file.iter_batches(1, [group], columns=[path], use_threads=False), None)
                longest = 0 if first is None else max(map(longest_value, first.columns), default=0)
                if longest * counts[path] > _DENSE_BYTES:
                    repeating.append(path)
        return repeating

    def _batch_rows(self, group: int) -> int:
        found = self._file.metadata.row_group(group)
        fixed = self._fixed_row_bytes
        row_bytes: int = fixed + found.total_byte_size // max(1, found.num_rows)
        cells: int = _BATCH_CELLS // max(1, found.num_columns)
        shared = sum(
            min(each.total_uncompressed_size, MAX_SHARED_BYTES)
            for each in self._columns(group)
            if _SHARED_PREFIXES in each.encodings
        )
        # Each value may be as long as the whole page.
        sharing = max(_SHARING_ROWS, _DENSE_BYTES // shared) if shared else _BATCH_ROWS
        return max(1, min(_BATCH_ROWS, cells, sharing, _BATCH_BYTES // max(1, row_bytes)))

    def _call(self, operation: Callable[[], Any], group: int | None = None) -> Any:
        """Call pyarrow and convert its errors to ddbload's; they name the row group, if given."""
        try:
            return operation()
        except DdbloadError:
            raise
        except Exception as error:  # noqa: BLE001 - pyarrow raises many
            # pyarrow wraps errors of the file and loses their class.
            if self._access.failure is not None:
                raise self._access.failure from None
            where = self.name if group is None else f"{self.name}, row group {group}"
            # pyarrow's messages about a row group may quote row data.
            words = type(error).__name__ if group is not None else f"{error!s:.200}"
            if isinstance(error, NotImplementedError):
                raise UnsupportedFormat(
                    f"{where}: Parquet of a kind that pyarrow does not read ({words})"
                ) from None
            raise DamagedParquet(
                f"{where} cannot be read as Parquet ({words}): it is damaged, cut short or"
                " encrypted; write it again, or leave out --format if it is not Parquet"
            ) from None


def _first_page(column: Any) -> int:
    """Return the offset of the first page that pyarrow reads of a column."""
    start: int = column.data_page_offset
    dictionary = column.dictionary_page_offset if column.has_dictionary_page else None
    return dictionary if dictionary and dictionary < start else start


def _version(source: ByteSource) -> str | None:
    """Return a key that identifies this version of the file; None if it has no identification."""
    pinned = source.pinned
    if "etag" not in pinned and "mtime_ns" not in pinned:
        return None
    # Only part of `pinned`: an entry of a listing also has the row groups to read.
    return json.dumps([pinned.get(name) for name in _VERSION_FIELDS])
