"""What a source names: one object, or several."""

from __future__ import annotations

import itertools
import os
import posixpath
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from ddbload.contracts.payload import AUTO, DYNAMODB_EXPORT, Source
from ddbload.errors import InvalidPayload, SourceChanged, SourceNotFound
from ddbload.pipeline.context import Context
from ddbload.source.catalogs.exports import (
    STARTED,
    DataFile,
    fewer,
    find_exports,
    is_of_export,
    lost,
    read_export,
)
from ddbload.source.catalogs.folders import find_files
from ddbload.source.catalogs.globs import Glob, has_wildcards
from ddbload.source.catalogs.manifests import MOST_BYTES, ManifestEntry, read_manifest
from ddbload.source.s3_listing.list_objects import list_objects
from ddbload.source.s3_listing.list_page import ListedObject
from ddbload.source.small_objects import pinned_version

Pinned = Mapping[str, Any]
T = TypeVar("T")

_EXPORTS = (AUTO, DYNAMODB_EXPORT)
_FIRST = 1000
_AT_ONCE = 16
"""Objects that are looked at side by side, where only their names are known."""


@dataclass(frozen=True, slots=True)
class SourceObjects:
    """Several objects, in their order."""

    objects: Iterator[Pinned]
    format: str | None = None
    """Where what names them says it."""


def find_objects(source: Source, context: Context) -> SourceObjects | None:
    """What a source's objects are; None where it is one.

    Empty ones are none. Raises `SourceNotFound`, `SourceUnreadable`, `BadManifest`,
    `DamagedExport` and what keeps places from being listed.
    """
    if source.manifest is not None:
        return _from_manifest(source.manifest, context)
    if source.path is not None:
        return _files(source, source.path, context)
    if source.key is not None:
        is_export = source.format in _EXPORTS and is_of_export(source.key)
        return _from_table_export(source.uri, context) if is_export else None
    return _list_prefix(source, context)


def _list_prefix(source: Source, context: Context) -> SourceObjects:
    bucket = source.bucket or ""
    glob = None if source.glob is None else Glob(source.glob)
    prefix = (source.prefix or "") if glob is None else glob.prefix

    def list_all() -> Generator[ListedObject]:
        return list_objects(
            context.clients.s3,
            bucket,
            prefix,
            signer=context.clients.s3_signer(bucket),
            retry_policy=context.retry_policy,
        )

    started: list[str] = []

    def there() -> Iterator[ListedObject]:
        for each in found:
            if each.size and not each.key.endswith("/"):
                yield each
            elif posixpath.basename(each.key) == STARTED:
                started.append(each.key)

    found = list_all()
    objects = (
        pinned_version(bucket, each.key, each.etag, each.size)
        for each in there()
        if glob is None or glob.matches(each.key)
    )
    if glob is not None or source.format not in _EXPORTS:
        return SourceObjects(objects)
    first = list(itertools.islice(objects, _FIRST))
    names = [each["key"] for each in first]
    if len(first) == _FIRST and any("data/" in name for name in names):
        # An export's summary stands after its data, which may be many.
        names += [each.key for each in list_all() if is_of_export(each.key)]
    begun = [f"s3://{bucket}/{name}" for name in started]
    export = _only_export(source, [f"s3://{bucket}/{name}" for name in names], begun)
    if export is not None:
        found.close()
        return _from_table_export(export, context)
    return SourceObjects(itertools.chain(first, objects))


def _files(source: Source, path: str, context: Context) -> SourceObjects | None:
    if source.format in _EXPORTS and is_of_export(path):
        return _from_table_export(path, context)
    one = not os.path.isdir(path) and (os.path.lexists(path) or not has_wildcards(path))  # noqa: PTH112
    if one:
        return None
    found = find_files(path)
    files = found.files
    if source.format in _EXPORTS:
        export = _only_export(source, files, found.empty)
        if export is not None:
            return _from_table_export(export, context)
    return SourceObjects(_pin(context, file) for file in files)


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


def _from_table_export(place: str, context: Context) -> SourceObjects:
    export = read_export(place, context.read)

    def pin(file: DataFile) -> Pinned | None:
        try:
            pinned = _pin(context, file.place)
        except SourceNotFound:
            raise lost(file.place) from None
        if file.items and not pinned["size"]:
            # It would be left out, as all that are empty are, and nobody would count its items.
            raise fewer(file.place, 0, file.items)
        return pinned if file.items is None else {**pinned, "items": file.items}

    return SourceObjects(_side_by_side(pin, export.files), DYNAMODB_EXPORT)


def _from_manifest(place: str, context: Context) -> SourceObjects:
    data = context.read(place, MOST_BYTES)
    if data is None:
        raise SourceNotFound(f"{place}: no such manifest")

    def pin(entry: ManifestEntry) -> Pinned | None:
        try:
            pinned = _pin(context, entry.place)
        except SourceNotFound:
            if entry.optional:
                return None
            raise
        if entry.size is not None and pinned["size"] != entry.size:
            raise SourceChanged(
                f"{entry.place} has {pinned['size']} bytes, and {place} says {entry.size}: it is"
                " not what the manifest was written for"
            )
        return pinned

    return SourceObjects(_side_by_side(pin, read_manifest(data, place)))


def _pin(context: Context, place: str) -> Pinned:
    with closing(context.open_place(place)) as raw:
        return raw.pinned


def _side_by_side(pin: Callable[[T], Pinned | None], found: Sequence[T]) -> Iterator[Pinned]:
    """Those that are there, and not empty, in their order."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for first in range(0, len(found), _AT_ONCE * 8):
            for pinned in pool.map(pin, found[first : first + _AT_ONCE * 8]):
                if pinned is not None and pinned["size"]:
                    yield pinned
