"""The record of a run, `run.json`, the input that resumes one, and the identity of a load."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from ddbload.contracts.dialect import known_codec
from ddbload.contracts.messages import (
    SPARSE,
    CountedLine,
    JsonObjectReader,
    JsonRule,
    Message,
    declared,
)
from ddbload.contracts.options import EDGES, KEEP, Options
from ddbload.contracts.payload import ColumnMapping, Comparison, NullHandling, Payload, check_run_id
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.source import Source
from ddbload.contracts.write_price import WritePrice
from ddbload.dynamodb.modes import WriteMode, mode_of
from ddbload.errors import InvalidPayload

LEDGER_VERSION = 2
"""Version of the ledgers that are written and read; others are refused."""

INDEX_BYTES = 16 * 1024 * 1024
"""Size above which a compressed object is cut, if there are fewer objects than workers."""
INDEX_ONE_OF_SEVERAL_BYTES = 256 * 1024 * 1024
"""Compressed size above which one of several objects is cut where preflight does not read all."""


@dataclass(frozen=True, slots=True)
class Cursor(Message):
    """Byte offset and line of the first row that is not settled.

    In a chunk whose first line is not known, `line` counts the line ends from the chunk's start.
    """

    byte: int
    line: CountedLine


_FIXED_BY_RECORD = ("source", "target", "types", "infer_types", "mapping", "nulls", "where")


@dataclass(frozen=True, slots=True)
class Resume:
    """Input of an execution that resumes an earlier run, whose record says what to load."""

    run: str
    options: Mapping[str, Any]
    """Options that replace those of the earlier run."""

    @classmethod
    def from_input(cls, value: object) -> Self | None:
        """Read the input; return None if it names no earlier run. Raises `InvalidPayload`."""
        run = value.get("run") if isinstance(value, Mapping) else None
        if not isinstance(run, Mapping) or run.get("resume_of") is None:
            return None
        with JsonObjectReader(value) as f:
            with f.nested("run") as fields_of_run:
                earlier = check_run_id(fields_of_run.text("resume_of"))
                given = fields_of_run.optional_text("id")
                for name in ("force", "once"):
                    if fields_of_run.raw(name) not in (None, False):
                        raise InvalidPayload(
                            f"{fields_of_run.path(name)!r} cannot be given with 'run.resume_of',"
                            " which imports what the earlier run has not; start a new run"
                        )
            more = [name for name in _FIXED_BY_RECORD if f.raw(name)]
            if more or given not in (None, earlier):
                named = repr(more[0] if more else "run.id")
                raise InvalidPayload(
                    f"{named} cannot be given with 'run.resume_of': the earlier run says what to"
                    " load, under its own id; only 'options' may differ"
                )
            options = f.mapping("options") if f.has("options") else f.raw("options") or {}
            return cls(earlier, options)

    def payload(self, record: RunRecord) -> Payload:
        """Make the payload: the pinned version of the run's source, with the new options."""
        earlier, pinned = record.payload, record.pinned
        options = Options.from_json({**earlier.options.to_json(), **self.options})
        source = earlier.source
        if source.key is not None:
            source = replace(source, version_id=pinned.get("version_id"), etag=pinned.get("etag"))
        elif source.path is not None and record.objects is None:
            # The path may have been given relative to another folder.
            source = replace(source, path=str(pinned["path"]))
        return replace(earlier, source=source, options=options, once=False, force=False)


@dataclass(frozen=True, slots=True)
class KeyAttribute(Message):
    """A key attribute of the table or of one of its indexes."""

    name: str
    type: str
    max_bytes: Annotated[int, JsonRule(least=1)]
    """DynamoDB's limit for the size of this key."""


@dataclass(frozen=True, slots=True)
class Table(Message):
    """The table as DescribeTable showed it when the run began."""

    name: str
    id: str
    """TableId, which a table created later under the same name does not share."""
    keys: tuple[KeyAttribute, ...]
    """Partition key, then the sort key if the table has one."""
    index_keys: tuple[KeyAttribute, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedBefore(Message):
    """Objects that a run leaves out, since the same was loaded of them; and one run that did."""

    objects: int
    """Number of objects that are left out."""
    runs: int
    """Number of runs that loaded them."""
    run: str
    """One of these: the last one that rejected rows, or else the last one."""
    mode: str
    status: str
    """SUCCEEDED or SUCCEEDED_WITH_REJECTS."""
    at: float
    """Seconds since the epoch at which that run was done."""
    written: int
    """Rows that it wrote."""
    rejected: int
    """Rows that it rejected."""

    @property
    def text(self) -> str:
        """Say how many objects were loaded before, by which run, and what became of its rows."""
        at = datetime.fromtimestamp(self.at, UTC)
        others = self.runs - 1
        more = f" and {others:,} other{'s' * (others > 1)}" if others else ""
        rejected = f", {self.rejected:,} rejected" if self.rejected else ""
        return (
            f"{self.objects:,} object{'s' * (self.objects != 1)}, by run {self.run} at"
            f" {at:%Y-%m-%dT%H:%M:%SZ}{more} ({self.written:,}"
            f" row{'s' * (self.written != 1)} {mode_of(self.mode).written}{rejected})"
        )


@dataclass(frozen=True, slots=True)
class RunRecord(Message):
    """`run.json`: everything that the workers of a run share."""

    PATH = "run"

    run: str
    payload: Payload
    pinned: Mapping[str, Any]
    """Version of the source, by which a change is noticed."""
    size: int | None
    """Bytes to read; None if only reading tells."""
    data_start: Cursor
    """Position of the first row, after the byte order mark and the header. Offsets in several
    objects count rows only, and so begin at 0."""
    columns: tuple[str, ...]
    """Column names of delimited text; empty for other formats."""
    types: tuple[str, ...]
    """Type of each attribute that is made from the columns, key attributes included."""
    table: Table
    chunk_bytes: Annotated[int, JsonRule(least=1)]
    """Bytes of a chunk: the option, or more, since a run has at most 20,000 chunks."""
    workers: Annotated[int, JsonRule(least=1)]
    """Number of chunks that are imported at once."""
    created: float
    """Seconds since the epoch."""
    asked: str
    """Hash of what was asked that determines rows, before anything was detected."""
    objects: int | None = None
    """Number of objects; None if the source names a single one."""
    loaded_before: LoadedBefore | None = None
    """Objects that the run leaves out, because the table has loaded them."""
    listing: str | None = None
    """Name of the list of objects in the ledger."""
    most_workers: Annotated[int | None, JsonRule(least=1)] = None
    """Most workers that the payload, or for `auto` the table, and the account allow. `workers` is
    lower if there are fewer chunks."""
    write_price: WritePrice | None = None
    """Price by which the run's write units become dollars."""
    padded: Annotated[bool, SPARSE] = False
    """True if some objects were not read by preflight, and only importing tells their size. Their
    rows have a range of bytes as long as they may be, and `size` stays None."""
    hmac_key: Annotated[str | None, SPARSE] = None
    """Fingerprint of the key that the mapping's templates use; None without such a template."""

    @property
    def public_names(self) -> frozenset[str]:
        """Names of columns and attributes from the run's input, its table or the file's header.

        The name of another attribute is a part of its row, and shown only with rows.
        """
        keys = (key.name for key in (*self.table.keys, *self.table.index_keys))
        mapping = self.payload.mapping
        renamed = (*mapping.rename.values(), *mapping.set)
        return frozenset((*self.columns, *keys, *self.payload.types, *renamed))

    @property
    def configuration(self) -> str:
        """SHA-256 of everything that determines the items, in hexadecimal."""
        source = self.payload.source
        decisive: dict[str, Any] = {
            "asked": self.asked,
            "source": dict(self.pinned),
            "table": self.table.id,
            "columns": list(self.columns),
            "types": list(self.types),
            # Where these were not asked for, they were detected.
            "format": source.format,
            "layout": source.layout,
            "delimiter": source.delimiter,
            "encoding": source.encoding,
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    @property
    def loads_nothing(self) -> bool:
        """True if the table had loaded every object before, and the run shall load each once."""
        return self.loaded_before is not None and not self.objects

    def with_limits(
        self, later: Payload, most_workers: int, write_price: WritePrice | None
    ) -> Self:
        """Return the run with the limits, workers and price of a later call."""
        expansion = later.source.max_expansion
        source = replace(self.payload.source, max_expansion=expansion)
        return replace(
            self,
            payload=replace(self.payload, source=source, options=later.options),
            workers=self.workers if most_workers == self.most_workers else most_workers,
            most_workers=most_workers,
            write_price=write_price,
        )

    @property
    def mode(self) -> WriteMode:
        """Write mode of the run."""
        return self.payload.options.write_mode

    @property
    def has_rows(self) -> bool:
        """False for delimited text without rows: it has no columns."""
        return bool(self.columns) or not self.payload.source.kind.has_columns

    def most_rows_besides(self, read_bytes: int) -> int | None:
        """Return how many valid rows the run may have besides those in so many bytes, at most.

        None if the source's size is not known.
        """
        if self.size is None:
            return None
        shortest = self.payload.source.kind.least_row_bytes(len(self.columns))
        # The last row of an object may lack its end.
        return max(0, self.size - read_bytes) // shortest + (self.objects or 1)

    def wants_index(self, stored_bytes: int) -> bool:
        """Tell whether a compressed object of this size shall be cut into chunks, if it can be."""
        workers = self.most_workers or self.workers
        least = INDEX_BYTES
        if self.objects is not None and self.payload.options.scan == EDGES:
            # Workers begin at once with objects that preflight need not read.
            least = max(least, INDEX_ONE_OF_SEVERAL_BYTES)
        return stored_bytes > least and (self.objects or 1) < workers

    @property
    def keeps_attempts(self) -> bool:
        """True if invocations record in the ledger how far they may have sent rows."""
        return self.mode.inserts or self.payload.options.condition is not None

    @property
    def stamp(self) -> dict[str, str]:
        """Run id and configuration that each segment and manifest part carries."""
        return {"run": self.run, "configuration": self.configuration}

    def to_json(self) -> dict[str, Any]:
        more = {"ledger_version": LEDGER_VERSION, "configuration": self.configuration}
        return Message.to_json(self) | more

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for another version of the ledger, or another configuration."""
        f.whole("ledger_version", None, LEDGER_VERSION, LEDGER_VERSION)
        configuration = f.text("configuration")
        if self.configuration != configuration:
            raise f.wrong("configuration", configuration, "that of this record")


# Loads: what was asked of which object versions. Options that determine rows are declared as
# decisive. They alone answer whether a table has loaded an object version, whether two runs load
# the same, and whether a run id belongs to a command.

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
        return f"{location_hash(self.location)}-{location_hash(mark)}"

    def is_same(self, other: ObjectVersion) -> bool:
        """Tell whether another version is this one; version ids decide where both are known."""
        return self.hash == other.hash and same_ids(self.version_id, other.version_id)


def same_ids(one: str | None, other: str | None) -> bool:
    """Tell whether two version ids may be of one version; a listing tells none."""
    return None in (one, other) or one == other


def location_hash(location: str) -> str:
    """Return the hash of an s3:// URI or a path, or of another text."""
    # Names of files may have bytes that are not UTF-8, which are surrogates in Python.
    return hashlib.sha256(location.encode(errors="surrogateescape")).hexdigest()[:_HASH_DIGITS]


_PAYLOAD_PARTS = ("source", "mapping", "nulls", "options")


def _decisive(kind: type) -> tuple[str, ...]:
    return tuple(each.field for each in declared(kind) if each.decisive)


DECISIVE: Mapping[type, tuple[str, ...]] = {
    Payload: tuple(
        each.name for each in fields(Payload) if each.name in (*_PAYLOAD_PARTS, *_decisive(Payload))
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
