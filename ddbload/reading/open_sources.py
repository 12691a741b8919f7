"""Open sources: the only module that pins, reopens and decodes objects for the pipeline.

Every object, path and prefix is checked here against the deployment's `AccessPolicy`.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ddbload.context import Context
from ddbload.contracts.source import AUTO, UNCOMPRESSED, ZIP, Source, is_archive
from ddbload.contracts.text_encodings import is_single_byte
from ddbload.errors import (
    AmbiguousDelimiter,
    BadHeader,
    DamagedCompression,
    ExtraMissing,
    InvalidJson,
    RowTooLong,
    SourceNotFound,
    SourceUnreadable,
    UnsupportedFormat,
    UnterminatedQuote,
)
from ddbload.ledger.object_listing import EXTRA_LISTING_FIELDS
from ddbload.parallel import map_in_threads
from ddbload.rows.file_signatures import (
    LONGEST_COMPRESSION_SIGNATURE,
    ZIP_SIGNATURES,
    compression_by_name,
    compression_of,
    is_unwritten,
)
from ddbload.source.catalogs.globs import FolderFiles, find_files
from ddbload.source.catalogs.manifests import MAX_MANIFEST_BYTES, ExportedFile
from ddbload.source.decoding.decoded_source import ByteSource, DecodedSource, HeadCachingSource
from ddbload.source.local_file import open_local
from ddbload.source.s3_listing.list_objects import list_objects
from ddbload.source.s3_listing.list_page import ListedObject
from ddbload.source.s3_object import Pinned, S3Object, open_s3, stored_bytes
from ddbload.source.s3_requests import ObjectRange, read_ranges
from ddbload.source.zip_members import ZipMember, list_members

if TYPE_CHECKING:
    from ddbload.source.parquet.parquet_lines import ParquetLines

READ_WHOLE_BYTES = 1024 * 1024
"""Objects up to this size are read whole, many at once."""
HEAD_BYTES, ZSTD_HEAD_BYTES = 16 * 1024, 64 * 1024
"""Bytes of each of many objects that are read for its header: most need no more. Zstandard is
decompressed in blocks of 128 KiB."""
_PARALLEL_LISTS = 16
"""ZIP archives whose members are listed concurrently."""
_MOST_LOCAL_BYTES = 1024
"""Bytes before a member's data that are read with them."""


# Pin and reopen.


def open_source(source: Source, context: Context) -> ByteSource:
    """Open and pin the one file or object that a payload names.

    Raises `BucketNotAllowed`, `SourceNotFound`, `SourceChanged` (another ETag than the payload's)
    and the errors of S3.
    """
    if source.path is not None:
        return open_location(source.path, context)
    return _open_object(
        source.bucket or "", source.key or "", context, source.version_id, source.etag
    )


def open_location(location: str, context: Context) -> ByteSource:
    """Open and pin a path or an s3:// URI. Raises as `open_source`, and `SourceUnreadable`."""
    context.access.check_location(location)
    if not location.startswith("s3://"):
        return open_local(location)
    bucket, _, key = location.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise SourceUnreadable(f"{location} names no object: write s3://bucket/key")
    return _open_object(bucket, key, context)


def _open_object(
    bucket: str,
    key: str,
    context: Context,
    version_id: str | None = None,
    etag: str | None = None,
) -> ByteSource:
    context.access.check_object(bucket, key)
    found = open_s3(
        context.clients.s3,
        bucket,
        key,
        version_id=version_id,
        etag=etag,
        retry_policy=context.retry_policy,
        head_bytes=context.small_bytes,
    )
    if not found.head:
        return found
    source = HeadCachingSource(found, found.head)
    if len(found.head) == found.size:
        context.opened[json.dumps(found.pinned)] = source
    return source


def reopen(pinned: Pinned, context: Context) -> ByteSource:
    """Open the version that a run is pinned to. Raises `SourceChanged`."""
    version = {name: pinned[name] for name in pinned if name not in EXTRA_LISTING_FIELDS}
    if "path" in pinned:
        context.access.check_location(str(pinned["path"]))
        # The absolute path: a later attempt may run in another folder.
        return _listed(open_local(str(pinned["path"]), version), pinned)
    context.access.check_object(str(pinned["bucket"]), str(pinned["key"]))
    if (known := context.opened.get(json.dumps(version))) is not None:
        return _listed(known, pinned)
    return _listed(S3Object(context.clients.s3, version, context.retry_policy), pinned)


def _listed(raw: ByteSource, pinned: Pinned) -> ByteSource:
    """Return what an entry of a listing stands for: an object, or a member of it."""
    return ZipMember(raw, pinned) if "member" in pinned else raw


def read_whole(location: str, context: Context) -> bytes | None:
    """Read a manifest into memory; None if it does not exist.

    Raises `SourceUnreadable` (more than `manifests.MAX_MANIFEST_BYTES`) and `BucketNotAllowed`.
    """
    try:
        raw = open_location(location, context)
    except SourceNotFound:
        return None
    with closing(raw):
        if raw.size > MAX_MANIFEST_BYTES:
            raise SourceUnreadable(f"{location} has {raw.size} bytes, more than is taken as a list")
        return b"".join(raw.stream(0, raw.size, 1024 * 1024))


# List.


def list_bucket(
    bucket: str, prefix: str, context: Context, after: str | None = None
) -> Generator[ListedObject]:
    """List the objects below a prefix, in order; `after` is the key behind which to begin.

    Raises `BucketNotAllowed` and errors of S3.
    """
    context.access.check_object(bucket, prefix)
    return list_objects(
        context.clients.s3,
        bucket,
        prefix,
        signer=context.clients.s3_signer(bucket),
        after=after,
        retry_policy=context.retry_policy,
    )


def list_folder(path: str, context: Context) -> FolderFiles | None:
    """List the files of a folder or a glob pattern; None if the path names one file.

    Raises `BucketNotAllowed`, `SourceNotFound` and `SourceUnreadable`.
    """
    context.access.check_location(path)
    return find_files(path)


def list_if_archive(raw: ByteSource, source: Source) -> list[dict[str, Any]] | None:
    """List the members of an object by its first bytes or name; None if it is not a ZIP archive."""
    is_zip = compression_by_name(raw.name) == ZIP or first_bytes(raw).startswith(ZIP_SIGNATURES)
    return list_members(raw) if is_zip and source.compression == AUTO and raw.size else None


def list_archives(objects: Iterable[Pinned], context: Context) -> Generator[Pinned]:
    """Yield the objects of a listing, with the members of ZIP archives in place of these."""

    def members(pinned: Pinned) -> list[Any]:
        if not is_archive(pinned):
            return [pinned]
        with closing(reopen(pinned, context)) as raw:
            return list_members(raw)

    for _, found in map_in_threads(members, objects, _PARALLEL_LISTS, _PARALLEL_LISTS * 8):
        yield from found


# Objects of a run, one after the other.


def open_each(
    objects: Iterable[Pinned], context: Context, *, several: bool, heads: bool = False
) -> Generator[tuple[Pinned, ByteSource]]:
    """Reopen pinned objects one after the other; each is closed when the next one is requested.

    `several`: True if the source has more than one object. Then small S3 objects are read ahead,
    concurrently; with `heads` the first bytes of all S3 objects are, and the rest of an object only
    where it is asked for.
    """

    def is_read_ahead(pinned: Pinned) -> bool:
        is_small = heads or size_of(pinned) <= READ_WHOLE_BYTES
        return several and "path" not in pinned and is_small

    def size_of(pinned: Pinned) -> int:
        size = stored_bytes(pinned)
        if not heads:
            return size
        is_zstd = str(pinned["key"]).endswith((".zst", ".zstd"))
        return min(size, ZSTD_HEAD_BYTES if is_zstd else HEAD_BYTES)

    for is_ahead, group in groupby(objects, is_read_ahead):
        if not is_ahead:
            for pinned in group:
                with closing(reopen(pinned, context)) as raw:
                    # Of several objects the header is checked first, then each is read from its
                    # start.
                    yield pinned, HeadCachingSource(raw) if several else raw
            continue
        with closing(_read_starts(group, size_of, context)) as starts:
            for wanted, data in starts:
                pinned = wanted.pinned
                raw = S3Object(context.clients.s3, pinned, context.retry_policy)
                with closing(_listed(HeadCachingSource(raw, data, wanted.start), pinned)) as start:
                    yield pinned, start


def _read_starts(
    objects: Iterable[Pinned], size_of: Callable[[Pinned], int], context: Context
) -> Generator[tuple[ObjectRange, bytes]]:
    """Read the first bytes of S3 objects, concurrently and in order."""
    requested: deque[ObjectRange] = deque()

    def request_each() -> Iterator[ObjectRange]:
        for pinned in objects:
            context.access.check_object(str(pinned["bucket"]), str(pinned["key"]))
            wanted = ObjectRange(pinned, 0, size_of(pinned))
            if "member" in pinned:
                _, at, until, *_ = pinned["member"]
                end = min(until, at + _MOST_LOCAL_BYTES + wanted.end)
                wanted = ObjectRange(pinned, at, end)
            requested.append(wanted)
            yield wanted

    with closing(_read_ranges(request_each(), context)) as found:
        for data in found:
            yield requested.popleft(), data


def read_windows(
    raw: ByteSource,
    windows: Iterable[tuple[int, int]],
    context: Context,
) -> Generator[bytes]:
    """Read ranges of an object or file, from their first byte to before their last, in order.

    Those of an S3 object are read concurrently.
    """
    pinned = raw.pinned
    if "path" not in pinned and "member" not in pinned:
        ranges = (ObjectRange(pinned, start, end) for start, end in windows)
        return _read_ranges(ranges, context)
    return (b"".join(raw.stream(start, end, max(1, end - start))) for start, end in windows)


def _read_ranges(ranges: Iterable[ObjectRange], context: Context) -> Generator[bytes]:
    return read_ranges(
        ranges,
        context.clients.s3,
        signers=context.clients.s3_signer,
        retry_policy=context.retry_policy,
    )


@contextmanager
def prefix_errors_with_object_name(raw: ByteSource, *, several: bool) -> Iterator[None]:
    """Prefix errors with the object's name when the source has several."""
    try:
        yield
    except (
        AmbiguousDelimiter,
        BadHeader,
        InvalidJson,
        RowTooLong,
        UnsupportedFormat,
        UnterminatedQuote,
    ) as error:
        if not several:
            raise
        raise type(error)(f"{raw.name}: {error.message}") from None


# Decode.


def open_decoded(raw: ByteSource, source: Source, pinned: Pinned | None = None) -> DecodedSource:
    """Wrap an object so that its rows are read decompressed and as UTF-8.

    `pinned`: the object's entry in the listing, with the fields of `EXTRA_LISTING_FIELDS`. Text in
    a single-byte encoding is not decoded here: any range of it can be read without what comes
    before, and rows are decoded after they were found.
    """
    listed = pinned or {}
    if source.kind.is_container:
        return open_parquet(raw, listed.get("row_groups"), max_expansion=source.max_expansion)
    if "items" in listed:
        return ExportedFile(raw, listed["items"], max_expansion=source.max_expansion)
    encoding = None if is_single_byte(source.encoding) else source.encoding
    return _decoded(raw, source, encoding)


def open_as_text(raw: ByteSource, source: Source) -> DecodedSource:
    """Wrap an object so that it is read as UTF-8, whatever its encoding; `auto`: undecoded."""
    return _decoded(raw, source, None if source.encoding == AUTO else source.encoding)


def _decoded(raw: ByteSource, source: Source, encoding: str | None) -> DecodedSource:
    return DecodedSource(
        raw,
        compression=compression_in(raw, source),
        encoding=encoding,
        max_expansion=source.max_expansion,
        layout=source.layout,
        table=source.table_of_rows,
    )


def open_parquet(
    raw: ByteSource, row_groups: Any = None, *, max_expansion: int | None = None
) -> ParquetLines:
    """Wrap a Parquet file, or some of its row groups, as lines of DynamoDB JSON.

    Raises `UnsupportedFormat` for a compressed file, `ExtraMissing` without pyarrow, and the errors
    of `ParquetLines`.
    """
    compression = ZIP if "member" in raw.pinned else compression_of(first_bytes(raw))
    if compression != UNCOMPRESSED:
        # Parquet is read from its end and in ranges, which a compressed stream does not allow.
        raise UnsupportedFormat(
            f"this is Parquet within {compression}: decompress it first; Parquet files are"
            " compressed inside"
        )
    # pyarrow's other allocators keep up to 45 MB of freed memory.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        # pyarrow takes a second to import.
        from ddbload.source.parquet.parquet_lines import ParquetLines
    except ImportError:
        subject = f"{raw.name} is a Parquet file"
        raise ExtraMissing.of(subject, "pyarrow", "parquet") from None
    return ParquetLines(raw, row_groups, max_expansion=max_expansion)


def compression_in(raw: ByteSource, source: Source) -> str:
    """Return an object's compression: the payload's, or by its first bytes if that is `auto`.

    Raises `DamagedCompression` as `refuse_empty`, and for one that was not written to its end.
    """
    if not raw.size:
        refuse_empty(raw.name, source, source.compression)
    if source.compression != AUTO:
        return source.compression
    start = first_bytes(raw)
    kind = compression_by_name(raw.name)
    if start and kind is not None and is_unwritten(start):
        # Text is read although its name says otherwise: some clients decompress what they copy.
        what = "it begins with zero bytes" if start[0] == 0 else f"it ends after byte {len(start)}"
        raise DamagedCompression(
            f"{raw.name}: not valid {kind}: {what}; copy or compress it again, or leave it out"
        )
    return compression_of(start)


def first_bytes(raw: ByteSource) -> bytes:
    """Read the bytes that show a compression, or Parquet."""
    size = min(raw.size, LONGEST_COMPRESSION_SIGNATURE)
    return b"".join(raw.stream(0, size, LONGEST_COMPRESSION_SIGNATURE))


def refuse_empty(name: str, source: Source, declared: str = AUTO) -> None:
    """Raise `DamagedCompression` for an empty object that should be compressed.

    The compression is `declared`, or follows from the name. Even compressed nothing has some bytes,
    so an empty object was not written to its end.
    """
    kind = compression_by_name(name) if declared == AUTO else declared
    if source.compression == UNCOMPRESSED or kind in (None, UNCOMPRESSED):
        return
    raise DamagedCompression(
        f"{name}: not valid {kind}: the file is empty (0 bytes); copy or compress it again, or"
        " leave it out"
    )


def known_size(file: DecodedSource) -> int | None:
    """Return the bytes there are to read; None if unknown before reading (compressed, decoded)."""
    return file.inner.size if file.plain else None
