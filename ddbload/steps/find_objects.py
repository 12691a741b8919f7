"""Find the objects that a source names: one, or several, which are listed in the ledger."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import os
import posixpath
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from ddbload.context import Context
from ddbload.contracts.chunks import ListingCursor, ListingPart
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import DYNAMODB_EXPORT, EXPORT_STARTED, Source, is_export_manifest
from ddbload.errors import InvalidPayload, RunMismatch, SourceChanged, SourceNotFound
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import (
    FoundObject,
    ObjectListing,
    adopt_pages,
    begin_listing,
    listing_of,
    write_pages,
)
from ddbload.parallel import map_in_threads
from ddbload.reading.open_sources import (
    list_bucket,
    list_folder,
    open_location,
    read_whole,
    refuse_empty,
)
from ddbload.rows.file_signatures import compression_by_name
from ddbload.source.catalogs.globs import Glob
from ddbload.source.catalogs.manifests import (
    ListedFile,
    find_exports,
    incomplete_data_file,
    missing_data_file,
    read_export,
    read_manifest,
)
from ddbload.source.s3_listing.list_page import ListedObject
from ddbload.source.s3_object import Pinned
from ddbload.source.s3_requests import pinned_version

T = TypeVar("T")
SourceObjects = tuple[Generator[FoundObject], str | None]
"""Objects of a source that has several, each with its position, behind which another invocation
continues; and the format, if the manifest or export that names them implies it."""

_SEARCHED_OBJECTS = 1000
"""Objects of a prefix that are searched for the files of a table export."""
_PARALLEL_OPENS = 16
"""Objects that are opened concurrently to pin them, where only their names are known."""


def list_source(
    source: Source,
    ledger: Ledger,
    context: Context,
    existing: RunRecord | None = None,
    cursor: ListingCursor | None = None,
    must_end: Callable[[], bool] = lambda: False,
) -> ObjectListing | ListingCursor | None:
    """List a source's objects in the ledger, or load the existing run's listing; None for one.

    Returns a cursor if `must_end` before the listing did; the next call continues from it. Raises
    as `find_objects`, and `RunMismatch` for an existing run of another source.
    """
    if existing is not None and existing.objects is not None:
        # A run keeps the objects it began with, whatever was added since.
        if source.location != existing.payload.source.location:
            raise RunMismatch(
                f"run {existing.run} began with {existing.payload.source.uri}; give the same"
                " source, or another run id"
            )
        return ObjectListing(
            existing.pinned, existing.listing or "", existing.payload.source.format
        )
    begun = ListingPart() if cursor is None else ledger.find_listing_part(cursor)
    if begun is None:
        raise InvalidPayload(
            "the cursor is not where an earlier invocation of preflight stopped: the ledger has no"
            " such part of a listing"
        )
    part = begun
    if cursor is None:
        cursor = begin_listing()
    else:
        part = adopt_pages(part, cursor.listing, ledger)
    while not part.ended:
        # The kind of source was found out by its first objects.
        known = source if part.format is None else replace(source, format=part.format)
        found = find_objects(known, context, part.after)
        if found is None:
            return None
        objects, format_ = found
        part = replace(part, format=format_ or part.format)
        part = write_pages(objects, part, cursor.listing, ledger, must_end)
        if must_end():
            break
    if part.ended and (begun.ended or not must_end()):
        return listing_of(part, cursor.listing, source.uri)
    following = ListingCursor(cursor.listing, cursor.part + 1)
    ledger.put_listing_part(following, part)
    return following


def find_objects(
    source: Source, context: Context, after: str | None = None
) -> SourceObjects | None:
    """Find the objects of a source; None if it is a single one.

    `after` is the position of an object behind which to begin. Empty objects are left out. Raises
    `BucketNotAllowed`, `SourceNotFound`, `SourceUnreadable`, `BadManifest`, `DamagedExport`,
    `SourceChanged` and what keeps a prefix from being listed.
    """
    if source.sources is not None:
        return _from_several(source.parts, context, after), None
    if source.manifest is not None:
        return _from_manifest(source, source.manifest, context, after)
    if source.path is not None:
        return _from_path(source, source.path, context, after)
    if source.names_object:
        return None
    if source.key is not None:
        return _from_table_export(source.uri, context, after)
    return _from_prefix(source, context, after)


def _from_several(
    parts: Sequence[Source], context: Context, after: str | None
) -> Generator[FoundObject]:
    """Find the objects of several sources, one source after the other.

    A position is the number of the source, a hash of all their names, and the position within the
    source, empty for a single object. Raises `InvalidPayload` if two sources name one object, or
    one is the export of a table, and `SourceChanged` if `after` is a position in other sources.
    """
    known, begin, within = _position([part.uri for part in parts], after, "the run", "sources")
    # A single object was found as a whole.
    begin += after is not None and not within
    seen = _NamedOnce(parts)

    def pin(number: int) -> Pinned | None:
        pinned = _pin(parts[number].uri, context)
        if not pinned["size"]:
            refuse_empty(parts[number].uri, parts[number])
        return pinned if pinned["size"] else None

    def flush() -> Generator[FoundObject]:
        for number, pinned in map_in_threads(pin, single, _PARALLEL_OPENS, len(parts)):
            seen.add(number, pinned)
            yield f"{number}/{known}/", pinned
        single.clear()

    single: list[int] = []
    for number in range(begin, len(parts)):
        found = find_objects(parts[number], context, within or None)
        within = ""
        if found is None:
            single.append(number)
            if len(single) == _PARALLEL_OPENS * 8:
                yield from flush()
            continue
        objects, format_ = found
        if format_ is not None:
            raise InvalidPayload(
                f"{parts[number].uri} is the export of a table: import it in a run without other"
                " sources"
            )
        yield from flush()
        for position, pinned in objects:
            seen.add(number, pinned)
            yield f"{number}/{known}/{position}", pinned
    yield from flush()


class _NamedOnce:
    """Check that no two of several sources name the same object.

    Objects of S3 are compared with the sources' patterns, not with each other: they may be a
    million, found by several invocations. Files are found by one.
    """

    def __init__(self, parts: Sequence[Source]) -> None:
        self._parts = parts
        self._keys = {(part.bucket, part.key): n for n, part in enumerate(parts) if part.key}
        self._patterns = [
            (number, part.bucket, part.prefix, None if part.glob is None else Glob(part.glob))
            for number, part in enumerate(parts)
            if part.bucket is not None and part.key is None
        ]
        self._files: dict[str, int] = {}

    def add(self, number: int, pinned: Pinned | None) -> None:
        """Add an object of a source. Raises `InvalidPayload` if another source names it, too."""
        if pinned is None:
            return
        if "path" in pinned:
            name = str(pinned["path"])
            other = self._files.setdefault(os.path.realpath(name), number)
        else:
            bucket, key = str(pinned["bucket"]), str(pinned["key"])
            name, other = f"s3://{bucket}/{key}", self._other(number, bucket, key)
        if other != number:
            raise InvalidPayload(
                f"{name} is named twice, by {self._parts[other].uri} and by"
                f" {self._parts[number].uri}: give one of them"
            )

    def _other(self, number: int, bucket: str, key: str) -> int:
        """Return another source that names an object, or the same if there is none."""
        by_key = self._keys.get((bucket, key), number)
        if by_key != number:
            return by_key
        for other, of_bucket, prefix, glob in self._patterns:
            if other == number or of_bucket != bucket:
                continue
            if key.startswith(prefix or "") if glob is None else glob.matches(key):
                return other
        return number


def _from_prefix(source: Source, context: Context, after: str | None) -> SourceObjects:
    bucket = source.bucket or ""
    glob = None if source.glob is None else Glob(source.glob)
    prefix = (source.prefix or "") if glob is None else glob.prefix
    is_export = source.kind.is_export
    may_be_export = is_export or (source.kind.is_open and after is None)
    listing = list_bucket(bucket, prefix, context, None if is_export else after)
    if glob is not None or not may_be_export:
        return _with_positions(source, listing, glob), None
    first, started = _first_objects(listing)
    keys = [each.key for each in first if each.size]
    if len(keys) == _SEARCHED_OBJECTS and any("data/" in key for key in keys):
        # The manifests of an export are listed after its data files, which may be many.
        keys += [
            each.key
            for each in list_bucket(bucket, prefix, context)
            if is_export_manifest(each.key)
        ]
    export = _only_export(
        source,
        [f"s3://{bucket}/{key}" for key in keys],
        [f"s3://{bucket}/{key}" for key in started],
    )
    if export is not None:
        listing.close()
        return _from_table_export(export, context, after)
    return _with_positions(source, itertools.chain(first, listing)), None


def _with_positions(
    source: Source, listing: Iterable[ListedObject], glob: Glob | None = None
) -> Generator[FoundObject]:
    bucket = source.bucket or ""
    for each in listing:
        is_found = glob is None or glob.matches(each.key)
        if is_found and not each.size:
            refuse_empty(f"s3://{bucket}/{each.key}", source)
        pinned = None
        if is_found and _has_rows(each):
            pinned = pinned_version(bucket, each.key, each.etag, each.size)
        yield each.key, pinned


def _first_objects(listing: Iterator[ListedObject]) -> tuple[list[ListedObject], list[str]]:
    """Take the first objects with rows, and empty ones that may be refused.

    Also the keys that mark a started export among them.
    """
    first: list[ListedObject] = []
    started: list[str] = []
    count = 0
    for each in listing:
        if _has_rows(each):
            first.append(each)
            count += 1
            if count == _SEARCHED_OBJECTS:
                break
        elif compression_by_name(each.key) is not None and len(first) == count:
            first.append(each)
        elif posixpath.basename(each.key) == EXPORT_STARTED:
            started.append(each.key)
    return first, started


def _has_rows(listed: ListedObject) -> bool:
    # A key that ends in a slash is a folder that a console made.
    return bool(listed.size) and not listed.key.endswith("/")


def _from_path(
    source: Source, path: str, context: Context, after: str | None
) -> SourceObjects | None:
    if source.kind.may_be_export and is_export_manifest(path):
        return _from_table_export(path, context, after)
    folder = list_folder(path, context)
    if folder is None:
        return None
    if source.kind.is_export or source.kind.is_open:
        export = _only_export(source, folder.files, folder.empty)
        if export is not None:
            return _from_table_export(export, context, after)
    for file in folder.empty:
        refuse_empty(file, source)
    files = folder.files
    if after is not None:
        files = files[bisect.bisect_right(files, os.fsencode(after), key=os.fsencode) :]
    return ((file, _pin(file, context)) for file in files), None


def _only_export(source: Source, names: Sequence[str], empty: Sequence[str]) -> str | None:
    exports = find_exports([*names, *empty])
    if not exports:
        return source.uri if source.kind.is_export else None
    if len(exports) > 1:
        raise InvalidPayload(
            f"{source.uri} has {len(exports)} exports of tables; name one of them, such as"
            f" {exports[0]}"
        )
    if source.kind.is_open:
        # The files of an export are in its folder, or beside it.
        beside = exports[0][: exports[0].rstrip("/").rfind("/") + 1]
        other = next((name for name in names if not name.startswith(beside)), None)
        if other is not None:
            raise InvalidPayload(
                f"{source.uri} has the export of a table, {exports[0]}, and other files, such as"
                f" {other}: name what is to be read, or say its format"
            )
    return exports[0]


def _from_table_export(location: str, context: Context, after: str | None) -> SourceObjects:
    files = read_export(location, lambda part: read_whole(part, context))

    def pin(file: ListedFile) -> Pinned | None:
        try:
            pinned = _pin(file.location, context)
        except SourceNotFound:
            raise missing_data_file(file.location) from None
        if file.items and not pinned["size"]:
            # Empty objects are left out, so its items would never be counted.
            raise incomplete_data_file(file.location, 0, file.items)
        return pinned if file.items is None else {**pinned, "items": file.items}

    return _pin_concurrently(pin, files, after, location), DYNAMODB_EXPORT


def _from_manifest(
    source: Source, location: str, context: Context, after: str | None
) -> SourceObjects:
    data = read_whole(location, context)
    if data is None:
        raise SourceNotFound(f"{location}: no such manifest")

    def pin(entry: ListedFile) -> Pinned | None:
        try:
            pinned = _pin(entry.location, context)
        except SourceNotFound as error:
            if entry.optional:
                return None
            raise SourceNotFound(
                f"{error}; {location} names it: if that is the data itself, leave out --manifest"
            ) from None
        if not pinned["size"]:
            refuse_empty(entry.location, source)
        if entry.size is not None and pinned["size"] != entry.size:
            raise SourceChanged(
                f"{entry.location} has {pinned['size']} bytes, and {location} says {entry.size}:"
                " it is not what the manifest was written for"
            )
        return pinned

    return _pin_concurrently(pin, read_manifest(data, location), after, location), None


def _pin(location: str, context: Context) -> Pinned:
    with closing(open_location(location, context)) as raw:
        return raw.pinned


def _pin_concurrently(
    pin: Callable[[T], Pinned | None], files: Sequence[T], after: str | None, name: str
) -> Generator[FoundObject]:
    """Pin files in their order; None stands for one that is missing or empty.

    A position is the number of files before, with a hash of all of them: raises `SourceChanged` if
    the manifest, `name`, lists others than it did.
    """
    known, begun, _ = _position(files, after, name, "objects")
    pinned_each = map_in_threads(pin, files[begun:], _PARALLEL_OPENS, _PARALLEL_OPENS * 8)
    with closing(pinned_each) as found:
        for number, (_, pinned) in enumerate(found, begun + 1):
            yield f"{number}/{known}", pinned if pinned and pinned["size"] else None


def _position(
    listed: Sequence[object], after: str | None, name: str, kind: str
) -> tuple[str, int, str]:
    """Return the hash of a list, the number in it at which to begin, and the rest of a position.

    Raises `SourceChanged` if `after` is a position in another list.
    """
    known = hashlib.sha256(repr(listed).encode(errors="surrogateescape")).hexdigest()[:16]
    number, _, rest = (after or f"0/{known}").partition("/")
    of_list, _, within = rest.partition("/")
    if of_list != known:
        raise SourceChanged(f"{name} names other {kind} than when preflight began: start again")
    return known, int(number), within
