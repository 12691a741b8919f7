"""An upload starts a run: which table it goes to, and that each object version starts one only."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ddbload.contracts.json_reader import JsonObjectReader
from ddbload.contracts.messages import Message
from ddbload.contracts.payload import (
    AUTO,
    DYNAMODB_EXPORT,
    EXPORT_FILES,
    EXPORT_STARTED,
    EXPORT_SUMMARY,
)
from ddbload.contracts.results import DONE
from ddbload.errors import ExecutionExists
from ddbload.ledger.ledger import Ledger, last_report
from ddbload.pipeline.context import LedgerContext
from ddbload.pipeline.executions import Executions

STARTED = "started"
STARTED_BEFORE = "started before"
LOADED_BEFORE = "loaded before"
NOT_MAPPED = "not mapped"
OF_AN_EXPORT = "part of an export"
RUN_PREFIX = "upload-"

_EXPORT = re.compile(r"(?:^|/)AWSDynamoDB/[^/]+/")
"""In the key of whatever DynamoDB exports: manifests, data, and an empty `_started`."""
_MANIFESTS = (EXPORT_SUMMARY, EXPORT_FILES, "manifest-summary.md5", "manifest-files.md5")


@dataclass(frozen=True, slots=True)
class UploadRule(Message):
    """Which uploads go to which table, and how they are read: a part of a payload."""

    prefix: str
    table: str
    bucket: str | None = None
    """None: any bucket whose uploads are told of."""
    types: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    infer_types: bool = False
    mapping: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object, path: str | None = None) -> Self:
        """Strictly as to the rule itself; what a payload may hold, preflight checks."""
        with JsonObjectReader(value, path or "upload") as f:
            return cls(
                prefix=f.raw("prefix") or "",
                table=f.text("table"),
                bucket=f.optional_text("bucket"),
                types=f.raw("types") or {},
                source=f.raw("source") or {},
                options=f.raw("options") or {},
                infer_types=f.raw("infer_types") or False,
                mapping=f.raw("mapping") or {},
                nulls=f.raw("nulls") or {},
            )

    def covers(self, upload: Upload) -> bool:
        """Whether it is this rule's bucket and prefix."""
        return self.bucket in (None, upload.bucket) and upload.key.startswith(self.prefix)

    def payload(self, upload: Upload) -> dict[str, Any] | None:
        """What to load for an upload; None for what is not to be read by itself."""
        format_ = self._format_of(upload.key)
        if format_ is None:
            return None
        # null is as if the field were not there, but for `quote`: no quotes.
        said = {name: v for name, v in self.source.items() if v is not None or name == "quote"}
        source = {
            "encoding": AUTO,
            **said,
            "format": format_,
            "bucket": upload.bucket,
            "key": upload.key,
            "version_id": upload.version_id,
            "etag": upload.etag,
        }
        return {
            "run": {"id": upload.run},
            "source": source,
            "target": {"table": self.table},
            "types": self.types,
            "infer_types": self.infer_types,
            "mapping": self.mapping,
            "nulls": self.nulls,
            "options": self.options,
        }

    def _format_of(self, key: str) -> str | None:
        """How an upload is read.

        A table's export is many objects and one source. Its summary is written when all others
        are there; so that starts the run. A rule that says another format means each data file.
        """
        given = self.source.get("format")
        said: str = AUTO if given is None else given
        name = posixpath.basename(key)
        in_its_folder = _EXPORT.search(key) is not None
        if said not in (AUTO, DYNAMODB_EXPORT):
            return None if in_its_folder and name in (*_MANIFESTS, EXPORT_STARTED) else said
        # A copy may lie anywhere: then its manifests tell it.
        if said == DYNAMODB_EXPORT or in_its_folder or name in _MANIFESTS:
            return DYNAMODB_EXPORT if name == EXPORT_SUMMARY else None
        return said


@dataclass(frozen=True, slots=True)
class Upload:
    """An object version that came to be."""

    bucket: str
    key: str
    version_id: str | None
    etag: str
    sequencer: str | None = None
    """Tells uploads to one key apart, and is the same in each delivery of one."""

    @classmethod
    def of(cls, event: object) -> Upload:
        """From EventBridge's `Object Created`, whose keys are as they are, not URL-encoded.

        Raises `InvalidPayload`. The event has more fields than are read here, and will have more.
        """
        detail = JsonObjectReader(event, "event").nested("detail")
        found, bucket = detail.nested("object"), detail.nested("bucket")
        return cls(
            bucket=bucket.text("name"),
            key=found.text("key"),
            version_id=found.optional_text("version-id"),
            etag=found.text("etag"),
            sequencer=found.optional_text("sequencer"),
        )

    @property
    def run(self) -> str:
        """The run's id, and the first execution's name: the same for the same object version."""
        # Without versions the sequencer is one: who puts an old file back wants it loaded again.
        kept = self.version_id not in (None, "null")
        version = (self.version_id if kept else self.sequencer) or ""
        named = f"{self.bucket}\n{self.key}\n{version}\n{self.etag}"
        return RUN_PREFIX + hashlib.sha256(named.encode()).hexdigest()[:40]


def on_upload(
    event: object, context: LedgerContext, rules: Sequence[UploadRule], executions: Executions
) -> dict[str, Any]:
    """Start a run for an upload, unless its object version started one before.

    The ledger decides that; the execution's name only keeps deliveries that come at once from
    starting two. A run that failed is not started again: `resume` takes it up. Returns what was
    done, with the run's id.
    """
    upload = Upload.of(event)
    covering = [rule for rule in rules if rule.covers(upload)]
    if not covering or upload.key.endswith("/"):
        # What ends in a slash is a folder that a console made.
        return {"outcome": NOT_MAPPED, "run": None, "execution": None}
    rule = max(covering, key=lambda each: (each.bucket is not None, len(each.prefix)))
    payload = rule.payload(upload)
    if payload is None:
        return {"outcome": OF_AN_EXPORT, "run": None, "execution": None}
    ledger = context.ledger(upload.run)
    if ledger.find_record() is not None:
        return {"outcome": _outcome(ledger), "run": upload.run, "execution": None}
    try:
        started = executions.start(upload.run, payload)
    except ExecutionExists:
        return {"outcome": STARTED_BEFORE, "run": upload.run, "execution": None}
    return {"outcome": STARTED, "run": upload.run, "execution": started}


def _outcome(ledger: Ledger) -> str:
    report = last_report(ledger)
    loaded = report is not None and report.status in DONE
    return LOADED_BEFORE if loaded else STARTED_BEFORE
