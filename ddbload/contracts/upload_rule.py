"""The contract between a deployment and its functions: variables, buckets and upload rules."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ddbload.contracts.comparisons import Comparison
from ddbload.contracts.messages import JsonObjectReader, JsonRule, Message
from ddbload.contracts.payload import Payload, read_where, where_json, with_options_in_parts
from ddbload.contracts.source import (
    AUTO,
    DYNAMODB_EXPORT,
    EXPORT_FILES,
    EXPORT_STARTED,
    EXPORT_SUMMARY,
    LOCATION_FIELDS,
)
from ddbload.errors import InvalidPayload
from ddbload.records import Record

_PLAIN = "plain text that keys begin with ('' for all)"
_PREFIX = JsonRule(pattern=re.compile("[^*]*"), wanted=_PLAIN)
_BUCKET_PREFIX = JsonRule(pattern=re.compile("[^*?]*"), wanted=_PLAIN)
"""Prefix that IAM's policies do not take for a pattern."""
_ACCOUNT = re.compile(r"[0-9]{12}", re.ASCII)


def _read_owner(f: JsonObjectReader) -> str | None:
    owner: str | None = f.optional("owner", JsonObjectReader.text)
    if owner is not None and not _ACCOUNT.fullmatch(owner):
        raise f.wrong("owner", owner, "the 12 digits of an account, as text")
    return owner


class SourceBucket(Message):
    """Bucket that may be read, or its keys with one prefix."""

    PATH = "source_bucket"
    WRITTEN_BY_USERS = True

    bucket: str
    prefix: Annotated[str, _BUCKET_PREFIX] = ""
    owner: Annotated[str | None, JsonRule(read=_read_owner)] = None
    """Account that must own the bucket; None for any."""
    requester_pays: bool = False
    """True if ddbload's account agrees to pay for its requests."""

    @property
    def location(self) -> str:
        """The bucket, and the prefix if there is one."""
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket

    def covers(self, bucket: str, name: str) -> bool:
        """Return whether a key, or a listing's prefix, lies in the part that may be read."""
        return bucket == self.bucket and name.startswith(self.prefix)

    def to_text(self) -> str:
        """Return the entry of an environment variable, without commas."""
        terms: dict[str, Any] = {"owner": self.owner, "requester_pays": self.requester_pays}
        given = urlencode({name: str(value) for name, value in terms.items() if value})
        # The bucket is not quoted: at synthesis it may be a token of CDK.
        prefix = f"/{quote(self.prefix)}" if self.prefix else ""
        return f"{self.bucket}{prefix}?{given}" if given else f"{self.bucket}{prefix}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `to_text` made."""
        location, _, terms = text.partition("?")
        bucket, _, prefix = location.partition("/")
        given = dict(parse_qsl(terms))
        return cls(bucket, unquote(prefix), given.get("owner"), "requester_pays" in given)


WORK_BUCKET = "DDBLOAD_WORK_BUCKET"
"""Environment variable: the bucket of the ledger, which is below runs/."""
SOURCE_BUCKETS = "DDBLOAD_SOURCE_BUCKETS"
"""Environment variable: entries of `SourceBucket`, separated by commas."""
INBOX = "DDBLOAD_INBOX"
"""Environment variable: the stack's inbox, one of the source buckets."""
ACCOUNT = "DDBLOAD_ACCOUNT"
"""Environment variable: the account of the stack, which owns its work bucket and its inbox."""
TABLES = "DDBLOAD_TABLES"
"""Environment variable: names of the tables that may be written, separated by commas."""
RESERVE_SECONDS = "DDBLOAD_RESERVE_SECONDS"
"""Environment variable: seconds before its timeout at which a function hands on its cursor."""
STATE_MACHINE = "DDBLOAD_STATE_MACHINE"
"""Environment variable: ARN of the state machine that uploads start."""
REQUIRE_BACKUP = "DDBLOAD_REQUIRE_BACKUP"
"""Environment variable: `true` refuses tables without point-in-time recovery."""
IMPORT_CONCURRENCY = "DDBLOAD_IMPORT_CONCURRENCY"
"""Environment variable: invocations of import_chunk that may run at once, if limited."""
SMALL_BYTES = "DDBLOAD_SMALL_BYTES"
"""Environment variable: size up to which preflight imports a source itself."""
DEFAULT_SMALL_BYTES = 1024 * 1024
UPLOADS = "DDBLOAD_UPLOADS"
"""Environment variable: a JSON list of `UploadRule`."""

DEFAULT_MEMORY_MB = 1769
"""Memory of preflight, report and on_stopped, with which Lambda gives them one full vCPU.

They compute while a user waits: with less memory they take longer, for the same price.
"""
IMPORT_MEMORY_MB = 768
"""Memory of import_chunk: 0.43 vCPU, which mostly waits for the table, and waiting is paid.

4,000 rows a second, the share of a worker, take 0.23 vCPU of the machine that measured it where
rows are nested JSON or Parquet that fill a write unit of 1 KB (58 CPU seconds a million), and 0.35
of a processor that is two thirds as fast. A fifth of the 0.43 remains. Of the memory 70 MB were
used, 160 MB for Parquet, and 240 MB with a million rows of it in one row group.
"""
DEFAULT_TIMEOUT_SECONDS = 900
"""Timeout of a function that imports; Lambda's limit."""
DEFAULT_RESERVE_SECONDS = 30
"""Seconds before its timeout at which a function stops, to await answers and write the ledger."""

UPLOAD_RUN_PREFIX = "upload-"
"""Beginning of the id of every run that an upload starts."""

_EXPORT_FOLDER = re.compile(r"(?:^|/)AWSDynamoDB/[^/]+/")
"""Part of the key of each object of a table export: manifests, data, and an empty `_started`."""
_EXPORT_MANIFESTS = (EXPORT_SUMMARY, EXPORT_FILES, "manifest-summary.md5", "manifest-files.md5")


class Upload(Record):
    """An uploaded object version."""

    bucket: str
    key: str
    version_id: str | None
    etag: str
    sequencer: str | None = None
    """Differs between uploads to one key, and is the same in each delivery of one event."""

    @classmethod
    def of(cls, event: object) -> Upload:
        """Read EventBridge's `Object Created` event, whose keys are not URL-encoded.

        Unknown fields are allowed: the event belongs to AWS. Raises `InvalidPayload`.
        """
        detail = JsonObjectReader(event, "event").nested("detail")
        uploaded, bucket = detail.nested("object"), detail.nested("bucket")
        return cls(
            bucket=bucket.text("name"),
            key=uploaded.text("key"),
            version_id=uploaded.optional("version-id", JsonObjectReader.text),
            etag=uploaded.text("etag"),
            sequencer=uploaded.optional("sequencer", JsonObjectReader.text),
        )

    @property
    def run(self) -> str:
        """Id of the run, and name of its first execution; equal for equal object versions."""
        # Without versioning the sequencer distinguishes versions, so that an old file which is
        # uploaded again is loaded again.
        is_versioned = self.version_id not in (None, "null")
        version = (self.version_id if is_versioned else self.sequencer) or ""
        identity = f"{self.bucket}\n{self.key}\n{version}\n{self.etag}"
        return UPLOAD_RUN_PREFIX + hashlib.sha256(identity.encode()).hexdigest()[:40]


class UploadRule(Message):
    """The table that uploads with a prefix are loaded into, and how they are read."""

    PATH = "upload"
    WRITTEN_BY_USERS = True

    prefix: Annotated[str, _PREFIX]
    table: str
    bucket: Annotated[str | None, JsonRule(sparse=True)] = None
    """None in a deployment's settings: its inbox. None in a function: any bucket."""
    types: Annotated[Mapping[str, Any], JsonRule(sparse=True)] = field(default_factory=dict)
    source: Annotated[Mapping[str, Any], JsonRule(sparse=True)] = field(default_factory=dict)
    options: Annotated[Mapping[str, Any], JsonRule(sparse=True)] = field(default_factory=dict)
    infer_types: Annotated[bool, JsonRule(sparse=True)] = False
    mapping: Annotated[Mapping[str, Any], JsonRule(sparse=True)] = field(default_factory=dict)
    nulls: Annotated[Mapping[str, Any], JsonRule(sparse=True)] = field(default_factory=dict)
    where: Annotated[tuple[Comparison, ...], JsonRule(read=read_where, sparse=True)] = ()
    once: Annotated[bool, JsonRule(sparse=True)] = False
    """Leave out an upload whose content the table has loaded under the same key."""

    nested = staticmethod(with_options_in_parts)

    def check(self, path: str) -> None:
        """Raise the error that each run of the rule would fail with. `path`: the rule's place.

        A deployment checks its rules; the function that reads them again need not.
        """
        # Imported here, since the function would only load them.
        from ddbload.contracts.column_mapping import (
            check_column_names,
            check_dialect,
            column_changes,
            refuse_hmac,
        )

        for name in LOCATION_FIELDS:
            if name in self.source:
                raise InvalidPayload(
                    f"unknown field '{path}.source.{name}': the uploaded object has it; remove it"
                )
        upload = Upload(bucket="bucket", key="key", version_id=None, etag="etag")
        payload = Payload.from_json(self._payload(upload, self._format), path)
        check_dialect(payload.source)
        check_column_names(payload.source.columns or ())
        refuse_hmac(column_changes(payload.mapping))

    def covers(self, upload: Upload) -> bool:
        """Return true if the upload has the rule's bucket and prefix."""
        return self.bucket in (None, upload.bucket) and upload.key.startswith(self.prefix)

    def payload(self, upload: Upload) -> dict[str, Any] | None:
        """Return the payload of the run for an upload; None if the upload starts no run."""
        file_format = self._format_of(upload.key)
        return None if file_format is None else self._payload(upload, file_format)

    def _payload(self, upload: Upload, file_format: str) -> dict[str, Any]:
        # A null field counts as missing, except that a null `quote` means no quotes.
        given = {name: v for name, v in self.source.items() if v is not None or name == "quote"}
        source = {
            "encoding": AUTO,
            **given,
            "format": file_format,
            "bucket": upload.bucket,
            "key": upload.key,
            "version_id": upload.version_id,
            "etag": upload.etag,
            "within": f"{upload.bucket}/{self.prefix}",
        }
        if is_sequencer(upload.sequencer):
            source["sequencer"] = upload.sequencer
        return {
            "run": {"id": upload.run, **({"once": True} if self.once else {})},
            "source": source,
            "target": {"table": self.table},
            "types": self.types,
            "infer_types": self.infer_types,
            "mapping": self.mapping,
            "nulls": self.nulls,
            "options": self.options,
            "where": where_json(self.where),
        }

    @property
    def _format(self) -> Any:
        given = self.source.get("format")
        return AUTO if given is None else given

    def _format_of(self, key: str) -> str | None:
        """Return the format of an upload; None if the upload starts no run.

        A table export is many objects and one source. DynamoDB writes its summary last, so the
        summary starts the run. A rule with another format loads each data file by itself.
        """
        file_format: str = self._format
        name = posixpath.basename(key)
        in_export_folder = _EXPORT_FOLDER.search(key) is not None
        if file_format not in (AUTO, DYNAMODB_EXPORT):
            is_control = in_export_folder and name in (*_EXPORT_MANIFESTS, EXPORT_STARTED)
            return None if is_control else file_format
        # A copied export may be in any folder; then its manifests identify it.
        if file_format == DYNAMODB_EXPORT or in_export_folder or name in _EXPORT_MANIFESTS:
            return DYNAMODB_EXPORT if name == EXPORT_SUMMARY else None
        return file_format


_SEQUENCER = re.compile("[0-9a-f]{1,64}", re.ASCII | re.IGNORECASE)


def is_sequencer(text: str | None) -> bool:
    """Return whether a text is a sequencer, a hexadecimal number. Others give no order."""
    return text is not None and _SEQUENCER.fullmatch(text) is not None


def sequencer_rank(sequencer: str) -> str:
    """Return a text by which the sequencers of one key sort in the order of its uploads.

    AWS: "The sequencers can be of different lengths. So, to compare these values, first right pad
    the shorter value with zeros, and then do a lexicographical comparison." Leaving out the zeros
    at the right gives the same order, whatever the lengths.
    """
    return sequencer.lower().rstrip("0")


class UploadClaim(Message):
    """Uploaded version of a key that a run shall load."""

    sequencer: str
    run: str
    at: float
    """Seconds since the epoch at which the upload's event was received."""

    @property
    def rank(self) -> str:
        """Text that sorts the claims of one key."""
        return sequencer_rank(self.sequencer)


class UploadOrder(Message):
    """State of one key: `uploads/<hash of bucket and key>.json`."""

    bucket: str
    key: str
    loaded: UploadClaim | None = None
    """Newest upload whose run has begun to load; older ones never begin any more."""
    execution: str | None = None
    """ARN of the execution that loads it; None outside a state machine."""
    waiting: tuple[UploadClaim, ...] = ()
    """Newer uploads, whose runs have not begun to load."""

    @property
    def claims(self) -> tuple[UploadClaim, ...]:
        """Uploads that wait, and the one that is loaded."""
        return self.waiting if self.loaded is None else (*self.waiting, self.loaded)

    def begun_after(self, claim: UploadClaim) -> UploadClaim | None:
        """Return the upload that has begun to load, if it is newer."""
        loaded = self.loaded
        return loaded if loaded is not None and loaded.rank > claim.rank else None

    def has(self, run: str) -> bool:
        """Return whether the upload of a run is loaded or waits."""
        return any(each.run == run for each in self.claims)

    def with_loaded(self, claim: UploadClaim, execution: str | None) -> Self:
        """Let an upload begin; older ones that wait are dropped."""
        waiting = [e for e in self.waiting if e.rank >= claim.rank and e.run != claim.run]
        return replace(self, loaded=claim, execution=execution, waiting=tuple(waiting))
