"""Find the objects that a source names: one, or several."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from ddbload.contracts.payload import AUTO, DYNAMODB_EXPORT, EXPORT_STARTED, Source
from ddbload.errors import InvalidPayload, SourceChanged, SourceNotFound
from ddbload.pipeline.context import Context
from ddbload.pipeline.reading.open_sources import (
    list_bucket,
    list_folder,
    open_location,
    read_whole,
)
from ddbload.source.catalogs.exports import (
    DataFile,
    find_exports,
    incomplete_data_file,
    is_export_manifest,
    missing_data_file,
    read_export,
)
from ddbload.source.catalogs.globs import Glob
from ddbload.source.catalogs.manifests import ManifestEntry, read_manifest
from ddbload.source.s3_listing.list_page import ListedObject
from ddbload.source.s3_object import Pinned
from ddbload.source.small_objects import pinned_version

T = TypeVar("T")

_EXPORT_FORMATS = (AUTO, DYNAMODB_EXPORT)
_SEARCHED_OBJECTS = 1000
"""Objects of a prefix that are searched for the files of a table export."""
_PARALLEL_OPENS = 16
"""Objects that are opened concurrently to pin them, where only their names are known."""


@dataclass(frozen=True, slots=True)
class SourceObjects:
    """Objects of a source that has several, in their order."""

    objects: Iterator[Pinned]
    format: str | None = None
    """The format, if the manifest or export that names the objects implies it."""


def find_objects(source: Source, context: Context) -> SourceObjects | None:
    """Find the objects of a source; None if it is a single one.

    Empty objects are left out. Raises `BucketNotAllowed`, `SourceNotFound`, `SourceUnreadable`,
    `BadManifest`, `DamagedExport` and what keeps a prefix from being listed.
    """
    if source.manifest is not None:
        return _from_manifest(source.manifest, context)
    if source.path is not None:
        return _from_path(source, source.path, context)
    if source.key is not None:
        is_export = source.format in _EXPORT_FORMATS and is_export_manifest(source.key)
        return _from_table_export(source.uri, context) if is_export else None
    return _from_prefix(source, context)


def _from_prefix(source: Source, context: Context) -> SourceObjects:
    bucket = source.bucket or ""
    glob = None if source.glob is None else Glob(source.glob)
    prefix = (source.prefix or "") if glob is None else glob.prefix
    listing = list_bucket(bucket, prefix, context)
    if glob is not None or source.format not in _EXPORT_FORMATS:
        return SourceObjects(
            _pinned_version(bucket, each)
            for each in listing
            if _has_rows(each) and (glob is None or glob.matches(each.key))
        )
    first, started = _first_objects(listing)
    keys = [each.key for each in first]
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
        return _from_table_export(export, context)
    remaining = (each for each in listing if _has_rows(each))
    return SourceObjects(
        _pinned_version(bucket, each) for each in itertools.chain(first, remaining)
    )


def _first_objects(listing: Iterator[ListedObject]) -> tuple[list[ListedObject], list[str]]:
    """Take the first objects with rows; also the keys that mark a started export among them."""
    first: list[ListedObject] = []
    started: list[str] = []
    for each in listing:
        if _has_rows(each):
            first.append(each)
            if len(first) == _SEARCHED_OBJECTS:
                break
        elif posixpath.basename(each.key) == EXPORT_STARTED:
            started.append(each.key)
    return first, started


def _has_rows(listed: ListedObject) -> bool:
    # A key that ends in a slash is a folder that a console made.
    return bool(listed.size) and not listed.key.endswith("/")


def _pinned_version(bucket: str, listed: ListedObject) -> Pinned:
    return pinned_version(bucket, listed.key, listed.etag, listed.size)


def _from_path(source: Source, path: str, context: Context) -> SourceObjects | None:
    if source.format in _EXPORT_FORMATS and is_export_manifest(path):
        return _from_table_export(path, context)
    folder = list_folder(path, context)
    if folder is None:
        return None
    if source.format in _EXPORT_FORMATS:
        export = _only_export(source, folder.files, folder.empty)
        if export is not None:
            return _from_table_export(export, context)
    return SourceObjects(_pin(file, context) for file in folder.files)


def _only_export(source: Source, names: Sequence[str], empty: Sequence[str]) -> str | None:
    exports = find_exports([*names, *empty])
    if len(exports) > 1:
        raise InvalidPayload(
            f"{source.uri} has {len(exports)} exports of tables; name one of them, such as"
            f" {exports[0]}"
        )
    if exports and source.format == AUTO:
        # What an export consists of lies in its folder, or beside it.
        beside = exports[0][: exports[0].rstrip("/").rfind("/") + 1]
        other = next((name for name in names if not name.startswith(beside)), None)
        if other is not None:
            raise InvalidPayload(
                f"{source.uri} has the export of a table, {exports[0]}, and other files, such as"
                f" {other}: name what is to be read, or say its format"
            )
    if exports:
        return exports[0]
    return source.uri if source.format == DYNAMODB_EXPORT else None


def _from_table_export(location: str, context: Context) -> SourceObjects:
    export = read_export(location, lambda part: read_whole(part, context))

    def pin(file: DataFile) -> Pinned | None:
        try:
            pinned = _pin(file.location, context)
        except SourceNotFound:
            raise missing_data_file(file.location) from None
        if file.items and not pinned["size"]:
            # Empty objects are left out, so its items would never be counted.
            raise incomplete_data_file(file.location, 0, file.items)
        return pinned if file.items is None else {**pinned, "items": file.items}

    return SourceObjects(_pin_concurrently(pin, export.files), DYNAMODB_EXPORT)


def _from_manifest(location: str, context: Context) -> SourceObjects:
    data = read_whole(location, context)
    if data is None:
        raise SourceNotFound(f"{location}: no such manifest")

    def pin(entry: ManifestEntry) -> Pinned | None:
        try:
            pinned = _pin(entry.location, context)
        except SourceNotFound:
            if entry.optional:
                return None
            raise
        if entry.size is not None and pinned["size"] != entry.size:
            raise SourceChanged(
                f"{entry.location} has {pinned['size']} bytes, and {location} says {entry.size}:"
                " it is not what the manifest was written for"
            )
        return pinned

    return SourceObjects(_pin_concurrently(pin, read_manifest(data, location)))


def _pin(location: str, context: Context) -> Pinned:
    with closing(open_location(location, context)) as raw:
        return raw.pinned


def _pin_concurrently(pin: Callable[[T], Pinned | None], files: Sequence[T]) -> Iterator[Pinned]:
    """Pin files in their order; leave out those that are missing or empty."""
    batch = _PARALLEL_OPENS * 8
    with ThreadPoolExecutor(_PARALLEL_OPENS) as pool:
        for first in range(0, len(files), batch):
            for pinned in pool.map(pin, files[first : first + batch]):
                if pinned is not None and pinned["size"]:
                    yield pinned
