"""Write rows as objects of S3, each by a conditional PUT, and interpret the answers. Pure.

An object is put where its key has none (If-None-Match), and says in its metadata which row of which
run it is. If the key has an object already, a HEAD tells whose that is; the transport of botocore
looks by GET.

- This row of this run: an earlier answer was lost, and the row is written.
- Another row of this run: this row is rejected, since it would overwrite the other.
- Anything else: mode `put` replaces it if it is still the same object (If-Match), and mode
  `insert` skips the row.

So a row may be sent any number of times, by any process, and is counted once.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ddbload.aws.failures import AwsFailure, FailureKind, to_ddbload_error
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.target import BucketTarget
from ddbload.dynamodb.write_modes import INSERT
from ddbload.errors import (
    AccessDenied,
    AwsConfiguration,
    BucketNotFound,
    ConditionalWritesUnsupported,
    RequestRefused,
)
from ddbload.write.requests import EndpointFeatures
from ddbload.write.scheduler.messages import Accepted, Answer, Fatal, Refused, Throttled, Unsure
from ddbload.write.scheduler.outcome_tracker import RowOutcome

CONTENT_TYPE = "application/json"
RUN_METADATA, ROW_METADATA = "ddbload-run", "ddbload-row"
"""Metadata of an object: its run, and the byte at which its row begins."""
MAX_STEPS = 9
"""Requests for a row after which it waits: others write and delete its object all the time."""
MAX_UNSEEN = 3
"""Answers to HEAD in a row that forbid it, after which nobody may see the objects."""
DUPLICATE_KEY = "duplicate_key"
REFUSED_BY_S3 = "refused_by_s3"
_ROW = re.compile(r"[0-9]{1,18}", re.ASCII)
_REFUSALS = frozenset({"EntityTooLarge", "InvalidURI", "KeyTooLongError", "MetadataTooLarge"})
"""Error codes of S3 that are about one row."""
_DAMAGED = frozenset({"BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"})
"""Error codes of a request that was damaged on its way."""


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """A row as it is written to a bucket."""

    key: str
    """Key of the object, with the prefix."""
    body: bytes
    position: int
    """Byte at which the row begins, among the rows of the run."""


@dataclass(frozen=True, slots=True)
class ObjectRequest:
    """A PUT or a HEAD of a row's object."""

    key: str
    body: bytes | None
    """None: a HEAD."""
    headers: Mapping[str, str]
    """Headers with lower-case names, sorted."""


class ObjectRequests:
    """The requests of a worker for the objects of one run. Thread-safe."""

    def __init__(self, record: RunRecord, endpoint: EndpointFeatures) -> None:
        """`endpoint`: what is known of the endpoint, by all chunks that the worker imports."""
        target = record.payload.target
        assert isinstance(target, BucketTarget)  # noqa: S101 - of a run into a bucket
        self.target = target
        self.run = run_stamp(record)
        self._is_single = record.objects is None
        self.inserts = record.payload.options.mode == INSERT
        self.endpoint = endpoint
        self.follow_ups = 0
        """Requests beside the first one of each attempt to write a row."""
        self._unseen = 0
        self._lock = threading.Lock()

    def where(self, position: int) -> str:
        """Say where another row of the run begins."""
        among = "" if self._is_single else ", counted over the rows of all objects,"
        return f"byte {position:,} of the source{among}"

    def count_follow_up(self) -> None:
        """Count a request that an answer made necessary."""
        with self._lock:
            self.follow_ups += 1

    def forbidden(self, status: int) -> Fatal | Unsure:
        """Interpret a HEAD that is refused.

        The answer to HEAD has no error code, which the next PUT shows if credentials have expired.
        """
        with self._lock:
            self._unseen += 1
            unseen = self._unseen
        if unseen < MAX_UNSEEN:
            return Unsure(f"HeadObject: HTTP status {status}", refused=True)
        causes = (
            "needs the permission s3:GetObject beside s3:PutObject"
            if status == 403
            else "looks at it, which S3 refuses for credentials that have expired (aws sts"
            " get-caller-identity) and for objects with a key of their own (SSE-C): delete these"
        )
        return Fatal(
            AccessDenied(
                f"looking at objects in {self.target.name}: HTTP status {status}; some keys have an"
                f" object already, and to tell whose it is ddbload {causes}"
            )
        )

    def seen(self) -> None:
        """Note that a HEAD was answered."""
        self._unseen = 0

    def answer_for_failure(self, failure: AwsFailure) -> Answer:
        """Translate a failed request into the scheduler's answer."""
        if failure.code in _REFUSALS:
            return Refused(failure.text, REFUSED_BY_S3)
        if failure.code in _DAMAGED:
            return Unsure(failure.code, refused=True)
        if failure.code == "NoSuchBucket":
            return Fatal(BucketNotFound(f"bucket {self.target.bucket} is not there any more"))
        if failure.status == 501:
            return Fatal(unsupported(self.target))
        if failure.is_redirect:
            return Fatal(moved_bucket(self.target.bucket))
        match failure.kind:
            case FailureKind.THROTTLED:
                return Throttled(failure.code)
            case FailureKind.UNSURE:
                foreign = failure.is_foreign
                doing = f"writing to {self.target.name}"
                return Unsure(
                    failure.code, error=to_ddbload_error(failure, doing) if foreign else None
                )
        # S3's own text names the object, whose key is made of the row.
        told = replace(failure, text=f"HTTP status {failure.status}" if failure.status else "")
        error = to_ddbload_error(told, f"writing to {self.target.name}")
        if isinstance(error, RequestRefused) and failure.status and not failure.code.isdigit():
            error = RequestRefused(
                f"{error.message}; S3's own text is not shown, since it may name a row's key: aws"
                f" s3 cp FILE {self.target.name} shows it"
            )
        if failure.code in ("403", "AccessDenied"):
            error = AccessDenied(f"{error.message}; s3:PutObject and s3:GetObject are needed")
        return Fatal(error, unsure=not failure.is_known)


class ObjectWrite:
    """The requests for one row, one after the other."""

    __slots__ = ("_owner", "_proves", "_row", "_steps", "request")

    def __init__(self, owner: ObjectRequests, row: ObjectRow) -> None:
        self._owner, self._row = owner, row
        self._steps = 0
        self._proves = False
        self.request = self._put({"if-none-match": "*"})
        """The request to send next."""

    def answered(self, failure: AwsFailure | None, headers: Mapping[str, str]) -> Answer | None:
        """Interpret the answer to `request`; None if there is another one to send.

        `headers`: of the answer, with lower-case names.
        """
        interpret = self._looked if self.request.body is None else self._has_put
        answer = interpret(failure, headers)
        if answer is None:
            self._steps += 1
            if self._steps >= MAX_STEPS:
                return Unsure("an object that others change all the time", refused=True)
            self._owner.count_follow_up()
        return answer

    def _put(self, condition: dict[str, str]) -> ObjectRequest:
        body = self._row.body
        # Buckets whose objects are locked by default refuse objects without a checksum.
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        headers = {
            "content-md5": digest,
            "content-type": CONTENT_TYPE,
            **condition,
            f"x-amz-meta-{ROW_METADATA}": str(self._row.position),
            f"x-amz-meta-{RUN_METADATA}": self._owner.run,
        }
        return ObjectRequest(self._row.key, body, headers)

    def _has_put(self, failure: AwsFailure | None, headers: Mapping[str, str]) -> Answer | None:
        owner, is_new = self._owner, "if-none-match" in self.request.headers
        if failure is None:
            if self._proves:
                return Fatal(unsupported(owner.target))
            if not headers.get("etag"):
                return Unsure("an answer that is not S3's")
            if is_new and not owner.endpoint.proven_condition:
                # Sent again: only an endpoint that heeds the condition refuses it.
                self._proves = True
                return None
            return Accepted()
        if failure.status == 412:
            owner.endpoint.proven_condition = True
            if self._proves:
                return Accepted()
            self.request = ObjectRequest(self._row.key, None, {})
            return None
        if self._proves:
            # It was written before. Another row will prove it.
            return Accepted()
        if not is_new and failure.status == 404 and failure.code != "NoSuchBucket":
            # It was deleted meanwhile.
            self.request = self._put({"if-none-match": "*"})
            return None
        return owner.answer_for_failure(failure)

    def _looked(self, failure: AwsFailure | None, headers: Mapping[str, str]) -> Answer | None:
        owner = self._owner
        if failure is not None:
            if failure.status == 404:
                # It was deleted meanwhile; without a bucket the PUT says so.
                self.request = self._put({"if-none-match": "*"})
                return None
            if failure.status in (400, 403):
                return owner.forbidden(failure.status)
            return owner.answer_for_failure(failure)
        owner.seen()
        etag = headers.get("etag")
        if not etag:
            return Unsure("an answer that is not S3's")
        if headers.get(f"x-amz-meta-{RUN_METADATA}") == owner.run:
            position = headers.get(f"x-amz-meta-{ROW_METADATA}") or ""
            if position == str(self._row.position):
                return Accepted()
            if _ROW.fullmatch(position):
                where = owner.where(int(position))
                return Refused(
                    f"the row at {where} has the same object key, and its object is there; a run"
                    " writes each key once",
                    DUPLICATE_KEY,
                )
        if owner.inserts:
            return Accepted(outcome=RowOutcome.SKIPPED)
        self.request = self._put({"if-match": etag})
        return None


def run_stamp(record: RunRecord) -> str:
    """Return what an object says of its run.

    The run id alone may be another run's, in another ledger. So what began when is hashed too.
    """
    text = f"{record.run} {record.created!r} {record.configuration}"
    return f"{record.run}/{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def moved_bucket(bucket: str) -> AwsConfiguration:
    """Make the error of a bucket that is in another region, of which the answer says no more."""
    return AwsConfiguration(
        f"AWS settings: the bucket {bucket} is in another region, or at another endpoint: give"
        f" --region (aws s3api get-bucket-location --bucket {bucket}), or check --endpoint-url"
    )


def unsupported(target: BucketTarget) -> ConditionalWritesUnsupported:
    """Make the error of an endpoint that ignores If-None-Match."""
    return ConditionalWritesUnsupported(
        f"writing to {target.name}: the endpoint ignores If-None-Match, by which ddbload keeps rows"
        " from overwriting each other: use S3 itself, or a store with conditional writes"
        " (moto 5, MinIO)"
    )
