"""List the objects of a run in its ledger, in pages, and read them back in order."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.run_record import RunRecord
from ddbload.errors import SourceNotFound
from ddbload.ledger.ledger import Ledger

PinnedObject = Mapping[str, Any]
"""Version of an object or file, as a source pins it."""
EXTRA_LISTING_FIELDS = ("items", "row_groups", "bytes")
"""Fields of a listed object that are no part of its version: the items of an exported file, the
row groups of a Parquet file to read, and their approximate size in bytes."""
PAGE_OBJECTS = 1000
"""Objects of one page of the listing."""


@dataclass(frozen=True, slots=True)
class ObjectListing:
    """Listing of a source's objects in the ledger."""

    pinned: PinnedObject
    """Number of objects, their bytes, and a hash of all their versions."""
    name: str
    """Name of the listing in the ledger."""
    format: str | None = None
    """The format, if the manifest or export that names the objects implies it."""

    @property
    def bytes(self) -> int:
        """Bytes of all objects, as stored."""
        return int(self.pinned["bytes"])

    @property
    def objects(self) -> int:
        """Number of objects."""
        return int(self.pinned["objects"])


def write_object_listing(
    objects: Iterator[PinnedObject], ledger: Ledger, name: str, format_: str | None
) -> ObjectListing:
    """Write a source's objects into the ledger. Raises `SourceNotFound` if there is none.

    `name`: the source's, for the message.
    """
    listing = secrets.token_hex(4)
    digest = hashlib.sha256()
    page: list[PinnedObject] = []
    count = size = 0
    for each in objects:
        page.append(each)
        digest.update(json.dumps(each, sort_keys=True).encode())
        count += 1
        size += each.get("bytes", each["size"])
        if len(page) == PAGE_OBJECTS:
            ledger.put_listing(listing, (count - 1) // PAGE_OBJECTS, page)
            page = []
    if not count:
        raise SourceNotFound(f"{name}: no object, or none but empty ones")
    if page:
        ledger.put_listing(listing, (count - 1) // PAGE_OBJECTS, page)
    pinned = {"objects": count, "bytes": size, "sha256": digest.hexdigest()}
    return ObjectListing(pinned, listing, format_)


def iter_objects(record: RunRecord, ledger: Ledger, first: int) -> Iterator[PinnedObject]:
    """Return the pinned objects of a run, from object number `first` on."""
    if record.objects is None:
        yield record.pinned
    else:
        yield from iter_listing(ledger, record.listing or "", first, record.objects)


def iter_listing(ledger: Ledger, name: str, first: int, end: int) -> Iterator[PinnedObject]:
    """Read the objects of a listing from number `first` to `end`, which is excluded."""
    for number in range(first, end):
        if number == first or number % PAGE_OBJECTS == 0:
            page = ledger.listing(name, number // PAGE_OBJECTS)
        yield page[number % PAGE_OBJECTS]
