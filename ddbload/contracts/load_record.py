"""Record of a load in the history: which object versions a run put into which table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.messages import Message
from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.write_modes import DELETE

_HASH_DIGITS = 16


def load_folder(table: str, table_id: str) -> str:
    """Return the folder of the loads into a table, with a slash at its end."""
    return f"{table}/{table_id}/"


@dataclass(frozen=True, slots=True)
class LoadRecord(Message):
    """First line of an object of the history; the lines after it are object versions."""

    run: str
    table: str
    table_id: str
    mode: str
    asked: str
    """Hash of what was asked that determines rows (`load_identity.asked_hash`)."""
    status: str
    """SUCCEEDED or SUCCEEDED_WITH_REJECTS."""
    rows: RowCounts
    """Row counts of the whole run."""
    at: float
    """Seconds since the epoch at which the run was done."""
    source: str
    """The source as users write it."""
    objects: int
    """Number of objects that the run loaded."""

    @property
    def deletes(self) -> bool:
        """True if the run deleted the keys that the objects list."""
        return self.mode == DELETE


@dataclass(frozen=True, slots=True)
class LoadClaim(Message):
    """Objects that a run shall load as the only one."""

    run: str
    at: float
    """Seconds since the epoch."""
    objects: int
    """Number of objects."""
    version: str | None
    """Hash of the only object's version; None for several objects."""
    version_id: str | None
    listing: str | None
    """Name of the list of several objects in the run's ledger."""


@dataclass(frozen=True, slots=True)
class LoadClaims(Message):
    """Claims of the runs that ask the same of a table, and have not ended as far as is known."""

    claims: tuple[LoadClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """Version of an object or file, as a run pinned it."""

    pinned: Mapping[str, Any]

    @property
    def location(self) -> str:
        """An s3:// URI, or a path."""
        pinned = self.pinned
        return (
            str(pinned["path"]) if "path" in pinned else f"s3://{pinned['bucket']}/{pinned['key']}"
        )

    @property
    def version_id(self) -> str | None:
        """Version id in S3; None for files, listed objects and buckets without versioning."""
        found = self.pinned.get("version_id")
        return None if found in (None, "null") else str(found)

    @property
    def hash(self) -> str:
        """Hash of the location, then of the content's mark: the ETag, or a file's size and times.

        Listings tell no version id, so it is compared apart (`is_same`).
        """
        pinned = self.pinned
        if "path" in pinned:
            mark = json.dumps([value for name, value in sorted(pinned.items()) if name != "path"])
        else:
            mark = str(pinned["etag"]).strip('"')
        return f"{location_hash(self.location)}-{_digest(mark)}"

    def is_same(self, other: ObjectVersion) -> bool:
        """Tell whether another version is this one; version ids decide where both are known."""
        return self.hash == other.hash and same_ids(self.version_id, other.version_id)


def same_ids(one: str | None, other: str | None) -> bool:
    """Tell whether two version ids may be of one version; a listing tells none."""
    return None in (one, other) or one == other


def location_hash(location: str) -> str:
    """Return the hash of an s3:// URI or a path."""
    return _digest(location)


def _digest(text: str) -> str:
    # Names of files may have bytes that are not UTF-8, which are surrogates in Python.
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_HASH_DIGITS]
