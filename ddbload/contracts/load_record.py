"""Loads: what was asked of which object versions, and their records in the history and claims.

Options that determine rows are declared as decisive. They alone answer whether a table has loaded
an object version, whether two runs load the same, and whether a run id belongs to a command.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ddbload.contracts.comparison import Comparison
from ddbload.contracts.dialect import known_codec
from ddbload.contracts.messages import Message, declared
from ddbload.contracts.options import KEEP, Options
from ddbload.contracts.payload import ColumnMapping, NullHandling, Payload
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.source import Source
from ddbload.dynamodb.modes import mode_of

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
    """Hash of what was asked that determines rows (`asked_hash`)."""
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
        return mode_of(self.mode).deletes


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


_PARTS = ("source", "mapping", "nulls", "options")


def _decisive(kind: type) -> tuple[str, ...]:
    return tuple(each.field for each in declared(kind) if each.decisive)


DECISIVE: Mapping[type, tuple[str, ...]] = {
    Payload: tuple(
        each.name for each in fields(Payload) if each.name in (*_PARTS, *_decisive(Payload))
    ),
    **{kind: _decisive(kind) for kind in (Source, ColumnMapping, NullHandling, Options)},
    Comparison: ("column", "op", "value"),
}
"""Fields that determine which rows and items an object version gives.

All others are limits, speed, places, and the run's own settings. The table's id and the object
version are the other parts of a load's identity.
"""

_WORDS = {"position_attribute": "position attribute"}
"""Names of fields in messages, where they differ."""


def asked_hash(payload: Payload, hmac_key: bytes | None) -> str:
    """Return the hash of everything asked that determines rows, in hexadecimal.

    `payload`: as it was given, before anything was detected. `hmac_key`: key of the filter hmac,
    which determines rows too; the hash is keyed with it, and does not reveal it.
    """
    text = json.dumps(_asked(payload), sort_keys=True).encode()
    if hmac_key is None:
        return hashlib.sha256(text).hexdigest()
    return hmac.new(hmac_key, text, hashlib.sha256).hexdigest()


def differing(payload: Payload, *earlier: Payload) -> list[str]:
    """Name what a payload asks for that none of the earlier ones did, in words for messages."""
    asked, before = _asked(payload), [_asked(each) for each in earlier]
    return [
        _WORDS.get(name, name)
        for name, value in asked.items()
        if all(value != each[name] for each in before)
    ]


def _asked(payload: Payload) -> dict[str, Any]:
    """Return what was asked by the names of its fields; equal for equal meanings."""
    parts: dict[str, Any] = {
        name: _plain(getattr(payload, name))
        for name in DECISIVE[Payload]
        if name not in ("source", "options")
    }
    for part in (payload.source, payload.options):
        parts |= {name: _meant(part, name) for name in DECISIVE[type(part)]}
    return parts


def _plain(value: Any) -> Any:
    """Return a member of a payload as JSON whose lists have no order, which means nothing."""
    if isinstance(value, ColumnMapping | NullHandling | Comparison):
        return {name: _plain(getattr(value, name)) for name in DECISIVE[type(value)]}
    if isinstance(value, tuple):
        plain = {json.dumps(_plain(each), sort_keys=True) for each in value}
        return sorted(plain)
    if isinstance(value, Mapping):
        return dict(value)
    return value


def _meant(part: Source | Options, name: str) -> Any:
    """Return a field of a source or of options, with one spelling for each meaning."""
    value = getattr(part, name)
    spell = _SPELLINGS.get(name)
    if spell is not None:
        return spell(part, value)
    return list(value) if name == "columns" and value is not None else _plain(value)


_SPELLINGS: Mapping[str, Callable[[Any, Any], Any]] = {
    "encoding": lambda _, name: known_codec(name) or name,
    # A quote that escapes a quote is a doubled quote.
    "escape": lambda source, escape: None if escape == source.quote else escape,
    "on_empty": lambda _, on_empty: None if on_empty == KEEP else on_empty,
}
