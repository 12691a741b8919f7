"""Every message that crosses an edge: between states, processes, and runs.

Each is a frozen dataclass with `to_json` and a strict `from_json` (unknown fields are
`InvalidPayload`). Field names are whole words and changes are additive, because executions
in flight span deployments. Byte offsets are absolute in the source, lines count from 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from ddbload.contracts.json_reader import JsonObjectReader
from ddbload.contracts.messages import IntMessage, Message
from ddbload.contracts.payload import Options, Payload, check_run_id, refuse_force
from ddbload.dynamodb.write_modes import INSERT
from ddbload.errors import InvalidPayload

LEDGER_VERSION = 2
"""Version of new ledgers. In version 1, segments do not carry run id and configuration, and there
are no attempts."""


@dataclass(frozen=True, slots=True)
class Cursor(IntMessage):
    """The first row that is not settled: its byte offset and its line."""

    NAME = "cursor"

    byte: int
    line: int


_WHAT = ("source", "target", "types", "infer_types", "mapping", "nulls")


@dataclass(frozen=True, slots=True)
class Resume:
    """An execution's input that takes up an earlier run, which says what to load."""

    run: str
    options: Mapping[str, Any]
    """Those that are to differ from the earlier run's."""

    @classmethod
    def asked_for(cls, value: object) -> Self | None:
        """None when the input names no earlier run. Raises `InvalidPayload`."""
        run = value.get("run") if isinstance(value, Mapping) else None
        if not isinstance(run, Mapping) or run.get("resume_of") is None:
            return None
        with JsonObjectReader(value) as f:
            with f.nested("run") as fields_of_run:
                earlier = check_run_id(fields_of_run.text("resume_of"))
                given = fields_of_run.optional_text("id")
                refuse_force(fields_of_run)
            more = [name for name in _WHAT if f.raw(name)]
            if more or given not in (None, earlier):
                named = repr(more[0] if more else "run.id")
                raise InvalidPayload(
                    f"{named} cannot be given with 'run.resume_of': the earlier run says what to"
                    " load, under its own id; only 'options' may differ"
                )
            options = f.mapping("options") if f.has("options") else f.raw("options") or {}
            return cls(earlier, options)

    def payload(self, record: RunRecord) -> Payload:
        """What to load: the version that the run is pinned to, with these options' changes."""
        earlier, pinned = record.payload, record.pinned
        options = Options.from_json({**earlier.options.to_json(), **self.options})
        source = earlier.source
        if source.key is not None:
            source = replace(source, version_id=pinned.get("version_id"), etag=pinned.get("etag"))
        elif source.path is not None and record.objects is None:
            # The path may have been given relative to another folder.
            source = replace(source, path=str(pinned["path"]))
        return replace(earlier, source=source, options=options)


@dataclass(frozen=True, slots=True)
class KeyAttribute(Message):
    """An attribute that a key, of the table or of an index, is made of."""

    name: str
    type: str
    max_bytes: int
    """DynamoDB's limit for a string in this place."""

    @classmethod
    def from_json(cls, value: object, path: str = "key") -> Self:
        with JsonObjectReader(value, path) as f:
            return cls(f.text("name"), f.text("type"), f.whole("max_bytes", least=1))


@dataclass(frozen=True, slots=True)
class Table(Message):
    """The table as it was described when the run began."""

    name: str
    id: str
    """Tells a table from another of the same name that was made later."""
    keys: tuple[KeyAttribute, ...]
    """Partition key, then the sort key where there is one."""
    index_keys: tuple[KeyAttribute, ...] = ()

    @classmethod
    def from_json(cls, value: object, path: str = "table") -> Self:
        with JsonObjectReader(value, path) as f:
            return cls(
                name=f.text("name"),
                id=f.text("id"),
                keys=tuple(KeyAttribute.from_json(k) for k in f.items("keys")),
                index_keys=tuple(KeyAttribute.from_json(k) for k in f.items("index_keys")),
            )


@dataclass(frozen=True, slots=True)
class RunRecord(Message):
    """`run.json`: everything that the workers of one run share."""

    run: str
    payload: Payload
    pinned: Mapping[str, Any]
    """The source's version: what `source` needs to notice another one."""
    size: int | None
    """Bytes that are read; None where only reading says how many they are."""
    data_start: Cursor
    """Where the rows begin: after the byte order mark and the header. Of several objects only
    their rows count, so that these begin at 0."""
    columns: tuple[str, ...]
    """Of delimited text; JSON has none."""
    types: tuple[str, ...]
    """One type an attribute that the columns become, the table's key types included."""
    table: Table
    chunk_bytes: int
    """As asked for, or more: a run has at most 20,000 chunks."""
    workers: int
    """Chunks imported at once."""
    created: float
    """Seconds since the epoch."""
    objects: int | None = None
    """How many there are, where the source is several; None: it is one."""
    listing: str | None = None
    """The name of their listing in the ledger."""
    ledger_version: int = LEDGER_VERSION
    """The ledger's version, fixed when the run begins."""

    @property
    def configuration(self) -> str:
        """A hash of what determines the items, and of nothing else (SHA-256, hexadecimal)."""
        payload = self.payload
        source = payload.source
        decisive: dict[str, Any] = {
            "source": dict(self.pinned),
            "format": source.format,
            "delimiter": source.delimiter,
            "quote": source.quote,
            "header": source.header,
            "encoding": source.encoding,
            "columns": list(self.columns),
            "types": list(self.types),
            "mode": payload.options.mode,
            "table": self.table.id,
        }
        # Left out where there is none: runs that began before it was known keep their hashes.
        later: dict[str, Any] = {
            "position_attribute": payload.options.position_attribute,
            "escape": source.escape,
            "comment": source.comment,
            "skip_lines": source.skip_lines,
            "mapping": payload.mapping.to_json() if payload.mapping else None,
            "nulls": payload.nulls.to_json() if payload.nulls else None,
            "declared": None if source.delimited else dict(payload.types),
        }
        decisive |= {name: value for name, value in later.items() if value}
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    def with_options(self, later: RunRecord) -> Self:
        """The same run, under the limits of a later call."""
        payload = replace(self.payload, options=later.payload.options)
        return replace(self, payload=payload, workers=later.workers)

    @property
    def keeps_attempts(self) -> bool:
        """Invocations record in the ledger how far they may have sent rows."""
        return self.payload.options.mode == INSERT and self.ledger_version >= LEDGER_VERSION

    @property
    def stamp(self) -> dict[str, str]:
        """The run id and configuration that each segment and manifest part carries.

        Empty in ledgers of version 1.
        """
        if self.ledger_version < LEDGER_VERSION:
            return {}
        return {"run": self.run, "configuration": self.configuration}

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "payload": self.payload.to_json(),
            "pinned": dict(self.pinned),
            "size": self.size,
            "data_start": self.data_start.to_json(),
            "columns": list(self.columns),
            "types": list(self.types),
            "table": self.table.to_json(),
            "chunk_bytes": self.chunk_bytes,
            "workers": self.workers,
            "created": self.created,
            "objects": self.objects,
            "listing": self.listing,
            "ledger_version": self.ledger_version,
            "configuration": self.configuration,
        }

    @classmethod
    def from_json(cls, value: object) -> Self:
        with JsonObjectReader(value, "run") as f:
            configuration = f.text("configuration")
            record = cls(
                run=f.text("run"),
                payload=Payload.from_json(f.required("payload")),
                pinned=f.mapping("pinned"),
                size=f.optional_whole("size"),
                data_start=Cursor.from_json(f.required("data_start")),
                columns=f.texts("columns"),
                types=f.texts("types"),
                table=Table.from_json(f.required("table")),
                chunk_bytes=f.whole("chunk_bytes", least=1),
                workers=f.whole("workers", least=1),
                created=f.number("created"),
                objects=f.optional_whole("objects"),
                listing=f.optional_text("listing"),
                ledger_version=f.whole("ledger_version", 1, least=1, most=LEDGER_VERSION),
            )
            if record.configuration != configuration:
                raise f.wrong("configuration", configuration, "that of this record")
            return record
