"""List a run's objects in its ledger, in pages, and read them back in order."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from ddbload.contracts.chunks import ListingCursor, ListingPart
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import is_archive
from ddbload.errors import DdbloadError, LedgerDamaged, SourceNotFound
from ddbload.ledger.ledger import Ledger
from ddbload.records import Record

PinnedObject = Mapping[str, Any]
"""Version of an object or file, in the form of its source's `pinned`."""
EXTRA_LISTING_FIELDS = ("items", "row_groups", "member", "bytes")
"""Fields of a listed object that do not identify its version.

These are the items of an exported file, the row groups of a Parquet file or the member of a ZIP
archive to read, and the size of either in bytes, which is approximate for row groups.
"""
FoundObject = tuple[str, PinnedObject | None]
"""Position in a source, and the object there; None if the object is left out."""
PAGE_OBJECTS = 1000
"""Number of objects on a page of the listing."""


class ObjectListing(Record):
    """Listing of a source's objects in the ledger."""

    pinned: PinnedObject
    """Number of objects, their total bytes, and a hash of all their versions."""
    name: str
    """Name of the listing in the ledger."""
    format: str | None = None
    """Format implied by the manifest or export that names the objects; None if there is none."""
    archives: int = 0
    """Number of objects with the name of a ZIP archive whose members are not listed."""

    @property
    def bytes(self) -> int:
        """Stored bytes of all objects."""
        return int(self.pinned["bytes"])

    @property
    def objects(self) -> int:
        """Number of objects."""
        return int(self.pinned["objects"])


def begin_listing() -> ListingCursor:
    """Return a cursor for a new listing with a new name."""
    return ListingCursor(secrets.token_hex(4), 0)


def write_pages(
    objects: Generator[FoundObject],
    begun: ListingPart,
    listing: str,
    ledger: Ledger,
    must_end: Callable[[], bool] = lambda: False,
) -> ListingPart:
    """Write a source's objects into the ledger, from where `begun` stopped.

    Ends after the last object, at the deadline, after one page's worth of objects, and at a page
    that another attempt has written (see `adopt_pages`), after which the objects must be listed
    again.
    """
    part, page, after = begun, list(begun.open), begun.after
    try:
        with closing(objects):
            for looked_at, (after, pinned) in enumerate(objects, 1):
                if pinned is not None:
                    page.append(pinned)
                if len(page) == PAGE_OBJECTS:
                    if not ledger.put_listing(listing, part.pages, page, after):
                        return adopt_pages(part, listing, ledger)
                    part, page = _with_page(part, page, after), []
                if looked_at % PAGE_OBJECTS == 0 and must_end():
                    return replace(part, after=after, open=tuple(page))
    except DdbloadError as error:
        # The next invocation repeats a request that was given up at the deadline.
        made_progress = after != begun.after and len(page) < PAGE_OBJECTS
        if error.permanent or not must_end() or not made_progress:
            raise
        return replace(part, after=after, open=tuple(page))
    if page:
        if not ledger.put_listing(listing, part.pages, page, after or ""):
            return adopt_pages(part, listing, ledger)
        part = _with_page(part, page, after)
    return replace(part, ended=True, open=())


def adopt_pages(part: ListingPart, listing: str, ledger: Ledger) -> ListingPart:
    """Add the pages that another attempt of the invocation has written.

    Existing pages are valid whatever a listing finds now, so a listing has one content even if
    objects are added or removed while it is made.
    """
    while not part.ended and (found := ledger.find_listing(listing, part.pages)) is not None:
        part = _with_page(part, *found)
        # Only the last page may be shorter.
        part = replace(part, ended=len(found[0]) < PAGE_OBJECTS)
    return part


def _with_page(
    part: ListingPart, objects: Sequence[PinnedObject], after: str | None
) -> ListingPart:
    digest = hashlib.sha256(part.sha256.encode())
    for each in objects:
        digest.update(json.dumps(each, sort_keys=True).encode())
    return replace(
        part,
        after=after,
        pages=part.pages + 1,
        objects=part.objects + len(objects),
        bytes=part.bytes + sum(each.get("bytes", each["size"]) for each in objects),
        archives=part.archives + sum(map(is_archive, objects)),
        sha256=digest.hexdigest(),
        open=(),
    )


def write_object_listing(
    objects: Iterator[PinnedObject], ledger: Ledger, name: str, format_: str | None
) -> ObjectListing:
    """Write known objects as a new listing. `name`: name of the source, for errors."""
    listing = begin_listing().listing
    found = (("", each) for each in objects)
    return listing_of(write_pages(found, ListingPart(format_), listing, ledger), listing, name)


def listing_of(part: ListingPart, listing: str, name: str) -> ObjectListing:
    """Return a finished listing. Raises `SourceNotFound` if it has no object.

    `name`: name of the source, for the error.
    """
    if not part.objects:
        raise SourceNotFound(
            f"{name}: no object, or none but empty ones; ddbload ls lists what there is"
        )
    pinned = {"objects": part.objects, "bytes": part.bytes, "sha256": part.sha256}
    return ObjectListing(pinned, listing, part.format, part.archives)


def iter_objects(record: RunRecord, ledger: Ledger, first: int) -> Iterator[PinnedObject]:
    """Yield the pinned objects of a run, from object number `first` on."""
    if record.objects is None:
        yield record.pinned
    else:
        yield from iter_listing(ledger, record.listing or "", first, record.objects)


def iter_listing(ledger: Ledger, name: str, first: int, end: int) -> Iterator[PinnedObject]:
    """Yield the objects of a listing from number `first` to `end`, exclusive."""
    pages = ledger.listing(name, range(first // PAGE_OBJECTS, -(-end // PAGE_OBJECTS)))
    number = first
    for page in pages:
        skipped = number % PAGE_OBJECTS
        own = page[skipped : skipped + end - number]
        yield from own
        number += len(own)
    if number != end:
        raise LedgerDamaged(f"listing {name} has fewer objects than its run; start a new run")
