"""Parquet, as lines of DynamoDB JSON: one `{"Item": {...}}` a row, in the order of the file.

The lines are the same whenever they are made, so that places in them can be gone back to.
Row groups stand by themselves: each can be read without those before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ddbload.contracts.payload import DEFAULT_MAX_EXPANSION
from ddbload.errors import (
    DamagedParquet,
    DdbloadError,
    DuplicateColumn,
    ExpansionTooLarge,
    ExtraMissing,
    UnsupportedFormat,
)
from ddbload.rows.file_signatures import LONGEST_COMPRESSION_SIGNATURE, compression_of
from ddbload.source.byte_source import ByteSource
from ddbload.source.decoding.compression import UNJUDGED_BYTES
from ddbload.source.decoding.decoded_source import DecodedSource, part_of
from ddbload.source.parquet.random_access import RandomAccess

if TYPE_CHECKING:
    from collections.abc import Callable

PORTION_BYTES = 4 * 1024 * 1024
"""Of a file's columns, decompressed: less than this is not worth to be opened for."""

# Of what is read at once: cells, and bytes as the file says that they are.
_BATCH_CELLS = 32 * 1024
_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_ROWS = 4096
# Of a column's compressed pages, how much is asked for at once.
_BUFFER_BYTES = 64 * 1024

_TELLING = ("bucket", "key", "version_id", "etag", "path", "size", "mtime_ns", "inode")

# That of the file that was opened last: it is opened again for each portion of it.
_FOOTERS: dict[str | None, Any] = {}


class ParquetLines(DecodedSource):
    """The rows of a Parquet file as lines of DynamoDB JSON. Offsets count these lines' bytes.

    `groups`: the first row group to read, counted from 0, and the first one not to read; None:
    all. Null is
    `{"NULL": true}`; a number that DynamoDB has not, like NaN, and text that is not UTF-8 stand
    in their line as they are, for its reader to reject.

    Raises `DamagedParquet`, `DuplicateColumn`, `UnsupportedFormat`, `ExpansionTooLarge` (what the
    columns decompress to, before their rows are made JSON), `ExtraMissing`, and what the inner
    source raises.
    """

    def __init__(
        self,
        inner: ByteSource,
        groups: Sequence[int] | None = None,
        *,
        max_expansion: int | None = DEFAULT_MAX_EXPANSION,
    ) -> None:
        super().__init__(inner, max_expansion=max_expansion)
        size = min(inner.size, LONGEST_COMPRESSION_SIGNATURE)
        start = b"".join(inner.stream(0, size, LONGEST_COMPRESSION_SIGNATURE))
        packed = compression_of(start)
        if packed != "none":
            # It is read from its end on, and here and there.
            raise UnsupportedFormat(
                f"{self.name} is Parquet within {packed}: decompress it first; Parquet compresses"
                " what is in it by itself"
            )
        self._access = RandomAccess(inner)
        self._file: Any = self._call(self._open)
        schema = self._call(lambda: self._file.schema_arrow)
        self.columns: tuple[str, ...] = tuple(schema.names)
        """Names of the top-level columns, which become attributes."""
        twice = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if twice is not None:
            raise DuplicateColumn(f"{self.name}: two columns are called {twice!r}")
        metadata = self._file.metadata
        self.rows: int = metadata.num_rows
        """In the whole file."""
        self.groups: int = metadata.num_row_groups
        """Row groups, in the whole file."""
        self._first: int = 0 if groups is None else groups[0]
        self._after: int = self.groups if groups is None else groups[1]
        self._refuse_bomb(metadata, max_expansion)
        self._access.expect_readers(metadata.num_columns)

    @property
    def plain(self) -> bool:
        """No range can be read without what comes before it in its row groups."""
        return False

    @property
    def rows_before(self) -> int:
        """Rows in the row groups before those that are read."""
        metadata = self._file.metadata
        return sum(metadata.row_group(group).num_rows for group in range(self._first))

    def portions(self, least_bytes: int = PORTION_BYTES) -> Iterator[tuple[int, int, int]]:
        """Row groups that are worth being read by themselves: the first, the first one after
        them, and how many bytes of the file they are, about.
        """
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).total_byte_size for group in range(self.groups)]
        whole = max(1, sum(sizes))
        first = held = 0
        for group, size in enumerate(sizes, 1):
            held += size
            if held >= least_bytes or group == self.groups:
                yield first, group, self.inner.size * held // whole
                first, held = group, 0

    def stream(self, start: int, end: int | None, piece_bytes: int) -> Iterator[bytes]:
        """The bytes from `start` up to, not with, `end`, in pieces of at most `piece_bytes`.

        `end` None: to the end. What comes before `start` is made, too, and left out.
        """
        yield from part_of(self._lines(), 0, start, end, piece_bytes, self.name)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close(force=True)
        self.inner.close()

    def _refuse_bomb(self, metadata: Any, most: int | None) -> None:
        whole = sum(metadata.row_group(group).total_byte_size for group in range(self.groups))
        if most is not None and whole > max(UNJUDGED_BYTES, most * self.inner.size):
            raise ExpansionTooLarge(
                f"{self.name}: its columns decompress to more than {most} times the file's size,"
                " which is what bombs do; if the data are sound, allow more (--max-expansion; in a"
                " payload, max_expansion)"
            )

    def _open(self) -> Any:
        try:
            from pyarrow import parquet  # type: ignore[import-untyped]
        except ImportError:
            raise ExtraMissing(
                f"{self.name} is a Parquet file, and the package that reads it is not installed:"
                " pip install 'ddbload[parquet]' (on the deployed stack: a layer that has pyarrow)"
            ) from None
        version = _version(self.inner)
        known = _FOOTERS.get(version)
        file = parquet.ParquetFile(
            self._access,
            metadata=known,
            # Not a whole row group at once, which may be a gigabyte.
            pre_buffer=False,
            buffer_size=_BUFFER_BYTES,
            # As nanoseconds, which is the default, years before 1678 would come out wrong.
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        if version is not None and known is None:
            _FOOTERS.clear()
            _FOOTERS[version] = file.metadata
        return file

    def _lines(self) -> Iterator[bytes]:
        from ddbload.source.parquet.parquet_values import lines

        for group in range(self._first, self._after):
            batches = self._file.iter_batches(
                batch_size=self._batch_rows(group), row_groups=[group], use_threads=False
            )
            left = self._file.metadata.row_group(group).num_rows
            while True:
                batch = self._call(lambda: next(batches, None), group)  # noqa: B023 - used at once
                if batch is None:
                    break
                left -= batch.num_rows
                yield self._call(lambda: lines(batch), group)  # noqa: B023
            if left:
                # A page whose header is damaged may be taken for none.
                raise DamagedParquet(
                    f"{self.name}, row group {group} has other rows than it says: it is damaged;"
                    " write it again"
                )

    def _batch_rows(self, group: int) -> int:
        found = self._file.metadata.row_group(group)
        row_bytes: int = found.total_byte_size // max(1, found.num_rows)
        cells: int = _BATCH_CELLS // max(1, found.num_columns)
        return max(1, min(_BATCH_ROWS, cells, _BATCH_BYTES // max(1, row_bytes)))

    def _call(self, what: Callable[[], Any], group: int | None = None) -> Any:
        """Do it, and give what goes wrong its name."""
        try:
            return what()
        except DdbloadError:
            raise
        except Exception as error:  # noqa: BLE001 - pyarrow raises many
            # What went wrong below pyarrow is wrapped by it.
            if self._access.failure is not None:
                raise self._access.failure from None
            where = self.name if group is None else f"{self.name}, row group {group}"
            # The text may hold what is in the file: only of its outside it is told.
            words = type(error).__name__ if group is not None else f"{error!s:.200}"
            if isinstance(error, NotImplementedError):
                raise UnsupportedFormat(
                    f"{where}: Parquet of a kind that pyarrow does not read ({words})"
                ) from None
            raise DamagedParquet(
                f"{where} cannot be read as Parquet ({words}): it is damaged, cut short or"
                " encrypted; write it again"
            ) from None


def _version(source: ByteSource) -> str | None:
    """What tells this version of a file from all others; None where nothing does."""
    pinned = source.pinned
    if "etag" not in pinned and "mtime_ns" not in pinned:
        return None
    return json.dumps([pinned.get(name) for name in _TELLING])
