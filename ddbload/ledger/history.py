"""History of a store: what was loaded into which table, by which run.

Its objects are written once and never changed. All are below `history/<table>/<table id>/`, so that
one table's are listed alone:

- `object/<hash>/<run>.jsonl` for a run that loaded one object. The hash is that of the object
  version, so one listing finds the runs that loaded it.
- `objects/<digits>/<run>-<number>.jsonl` for a run that loaded several: up to 100,000 objects take
  1, 16 or 256 pages, by the first digits of their hashes. Looking up one object takes three
  listings, and one page per such run into the table. This avoids a million writes for a million
  objects.

Each has a `LoadRecord` in its first line, and an object version in each further line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, repeat
from typing import Any

from ddbload.contracts.messages import Message, decode_object, encode_json
from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.modes import mode_of
from ddbload.ledger.store import Store
from ddbload.records import Record

GROUP_OBJECTS = 100_000
"""Number of objects kept in memory and written together."""
PARALLEL_WRITES = 16
"""Number of pages written concurrently."""
_PAGE_OBJECTS = 2000
"""Approximate objects per page, if there are fewer than 256 pages."""
_MOST_DIGITS = 2
_ROOT = "history/"
_PAGE = re.compile(rf"{_ROOT}[^/]+/[^/]+/objects?/[^/]+/[^/]+\.jsonl")
"""Names of history objects. Other names do not belong to ddbload."""


class LoadPage(Record):
    """History object: a load record with object versions."""

    load: LoadRecord
    versions: Sequence[ObjectVersion]


class History:
    """History in a store. Reading raises `LedgerDamaged` for an object that cannot be decoded."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, load: LoadRecord, versions: Iterable[ObjectVersion]) -> None:
        """Record the object versions that a run has loaded; existing records stay unchanged."""
        folder = _folder(load.table, load.table_id)
        each = iter(versions)
        number = 0
        while group := [(e.hash, encode_json(dict(e.pinned))) for e in islice(each, GROUP_OBJECTS)]:
            if number == 0 and len(group) == 1:
                self._put_page(f"{folder}object/{group[0][0]}/{load.run}.jsonl", load, group)
                return
            pages: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
            count = _digits(len(group))
            for found in group:
                pages[found[0][:count] or "-"].append(found)
            names = [f"{folder}objects/{digits}/{load.run}-{number}.jsonl" for digits in pages]
            with ThreadPoolExecutor(min(PARALLEL_WRITES, len(pages))) as pool:
                list(pool.map(self._put_page, names, repeat(load), pages.values()))
            number += 1

    def version_names(self, table: str, table_id: str, version: ObjectVersion) -> list[str]:
        """List the history objects of one table that may contain an object version."""
        return self._names_of(_folder(table, table_id), version.location, version.hash)

    def table_names(self, table: str, table_id: str) -> list[str]:
        """List the history objects of one table. Objects are only ever added."""
        folder = _folder(table, table_id)
        return list(filter(_PAGE.fullmatch, self._store.names(folder)))

    def find_each(
        self, names: Sequence[str], versions: Iterable[ObjectVersion]
    ) -> Iterator[tuple[str, LoadRecord]]:
        """Find the loads of object versions into a table, unsorted.

        `names`: names from `table_names`, or for one object from `version_names`. Yields hashes of
        versions with their loads.
        """
        if not names:
            # Return before `versions` is read: a table without loads needs no million versions in
            # memory.
            return
        wanted = {version.hash: version.version_id for version in versions}
        own = []
        for name in names:
            kind, key = name.split("/")[3:5]
            if kind != "object" or key in wanted:
                own.append(name)
        for page in self.read(own):
            for each in page.versions:
                found = each.hash
                if found in wanted and same_ids(wanted[found], each.version_id):
                    yield found, page.load

    def read_location(self, location: str) -> Iterator[LoadPage]:
        """Read the loads of all versions of one object or file, into all tables, unsorted."""
        for table in self._store.folders(_ROOT):
            for table_id in self._store.folders(f"{_ROOT}{table}/"):
                names = self._names_of(f"{_ROOT}{table}/{table_id}/", location)
                for page in self.read(names):
                    own = [each for each in page.versions if each.location == location]
                    if own:
                        yield LoadPage(page.load, own)

    def _names_of(self, folder: str, location: str, version_hash: str | None = None) -> list[str]:
        """List the history objects that may contain an object, or one version of it."""
        digits = location_hash(location)
        single = f"{digits}-" if version_hash is None else f"{version_hash}/"
        shards = ["-", *(digits[: count + 1] for count in range(_MOST_DIGITS))]
        names = self._store.names(f"{folder}object/{single}")
        for shard in shards:
            names += self._store.names(f"{folder}objects/{shard}/")
        return names

    def _put_page(self, name: str, load: LoadRecord, page: Sequence[tuple[str, bytes]]) -> None:
        lines = [encode_json(load.to_json())]
        self._store.put_new(name, b"\n".join([*lines, *(line for _, line in page), b""]))

    def read(self, names: Iterable[str]) -> Iterator[LoadPage]:
        """Read history objects, in the order of their names."""
        names = list(names)
        for name, data in zip(names, self._store.get_all(names), strict=True):
            if data is not None:
                yield self._decode(name, data)

    def _decode(self, name: str, data: bytes) -> LoadPage:
        def decode() -> LoadPage:
            first, *lines = data.splitlines()
            load = LoadRecord.from_json(json.loads(first))
            versions = [ObjectVersion(dict(json.loads(line))) for line in lines]
            # Of a damaged line, this raises LookupError here.
            _ = [each.hash for each in versions]
            return LoadPage(load, versions)

        return decode_object(self._store.uri(name), decode, "delete it if nobody needs it")


def _folder(table: str, table_id: str) -> str:
    return _ROOT + load_folder(table, table_id)


def _digits(objects: int) -> int:
    """Return the number of hash digits that divide this many objects into pages."""
    return sum(objects > _PAGE_OBJECTS * 16**digits for digits in range(_MOST_DIGITS))


# Loads: what was asked of which object versions.

_HASH_DIGITS = 16


def load_folder(table: str, table_id: str) -> str:
    """Return the folder of the loads into a table, with a trailing slash."""
    return f"{table}/{table_id}/"


class LoadRecord(Message):
    """First line of a history object; the lines after it are object versions."""

    run: str
    table: str
    table_id: str
    mode: str
    asked: str
    """Hash of what was asked that determines rows (`contracts.payload.asked_hash`)."""
    status: str
    """SUCCEEDED or SUCCEEDED_WITH_REJECTS."""
    rows: RowCounts
    """Row counts of the whole run."""
    at: float
    """Time at which the run was done, in seconds since the epoch."""
    source: str
    """Source in the form that users type it."""
    objects: int
    """Number of objects that the run loaded."""

    @property
    def deletes(self) -> bool:
        """True if the run deleted the keys listed in the objects."""
        return mode_of(self.mode).deletes


class LoadClaim(Message):
    """Claim by which a run keeps other runs from loading the same objects at the same time."""

    run: str
    at: float
    """Seconds since the epoch."""
    objects: int
    """Number of objects."""
    version: str | None
    """Hash of the object version if there is only one object; else None."""
    version_id: str | None
    listing: str | None
    """Name of the listing of several objects in the run's ledger."""


class LoadClaims(Message):
    """Claims of unfinished runs with the same options and table."""

    claims: tuple[LoadClaim, ...] = ()


class ObjectVersion(Record):
    """Version of an object or file, as pinned by a run."""

    pinned: Mapping[str, Any]

    @property
    def location(self) -> str:
        """s3:// URI or path."""
        pinned = self.pinned
        return (
            str(pinned["path"]) if "path" in pinned else f"s3://{pinned['bucket']}/{pinned['key']}"
        )

    @property
    def version_id(self) -> str | None:
        """S3 version id; None for files, listed objects and buckets without versioning."""
        found = self.pinned.get("version_id")
        return None if found in (None, "null") else str(found)

    @property
    def hash(self) -> str:
        """Hash of the location, then of the content's identification.

        The latter is the ETag, or a file's size and times. Listings do not include version ids, so
        these are compared separately (`is_same`).
        """
        pinned = self.pinned
        if "path" in pinned:
            mark = json.dumps([value for name, value in sorted(pinned.items()) if name != "path"])
        else:
            mark = str(pinned["etag"]).strip('"')
        return f"{location_hash(self.location)}-{location_hash(mark)}"


def same_ids(one: str | None, other: str | None) -> bool:
    """Return whether two version ids may denote one version. An id from a listing is None."""
    return None in (one, other) or one == other


def location_hash(location: str) -> str:
    """Return the hash of an s3:// URI, a path, or another text."""
    # File names may contain bytes that are not UTF-8, which Python decodes to surrogates.
    return hashlib.sha256(location.encode(errors="surrogateescape")).hexdigest()[:_HASH_DIGITS]
