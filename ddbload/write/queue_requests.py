"""Build requests that send messages to an SQS queue, and interpret their answers. Pure.

SendMessageBatch takes up to ten entries. Its answer names those that were taken and those that
failed. An entry that the answer does not name may have been taken, so it is sent again: a FIFO
queue delivers it once, because its deduplication id stays the same, and a standard queue maybe
twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ddbload.aws.failures import AwsFailure, FailureKind, failure_of_code
from ddbload.contracts.queue_messages import MOST_BYTES, MOST_ENTRIES
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import AccessDenied, QueueNotFound
from ddbload.write.requests import ItemOrKey, SentItems, fatal_answer
from ddbload.write.scheduler.messages import Accepted, Answer, Fatal, Refused, Throttled, Unsure
from ddbload.write.scheduler.request_limits import RequestLimits

QUEUE_REQUESTS = RequestLimits(MOST_ENTRIES, MOST_BYTES)
REFUSED_BY_SQS = "refused_by_sqs"
"""Cause of rejects whose detail is SQS's message, which may quote the row."""
_NOT_SQS = "an answer that is not SQS's"
_REFUSED = {"InvalidParameterValue", "MissingParameter"}
"""Codes of a request with an entry that SQS refuses."""
_MISSING = "QueueDoesNotExist"


class QueueRequests:
    """SendMessageBatch requests to one queue."""

    most_rows: int | None = None

    def __init__(self, queue: str, url: str) -> None:
        """`queue`: its name, for messages."""
        self._queue = queue
        self._url = url

    def operation(self, rows: int) -> str:  # noqa: ARG002 - protocol
        """Return the operation, which is the same for any number of rows."""
        return "SendMessageBatch"

    def parameters(self, items: Sequence[ItemOrKey]) -> dict[str, Any]:
        """Build the parameters of SendMessageBatch from the members of its entries."""
        entries = [{"Id": str(index), **item} for index, item in enumerate(items)]
        return {"QueueUrl": self._url, "Entries": entries}

    def accepted(self, response: Any, rows: int, items: SentItems) -> Answer:  # noqa: ARG002
        """Interpret a response; `Unsure` if it names an entry twice, or one that was not sent."""
        if not isinstance(response, Mapping):
            return Unsure(_NOT_SQS)
        taken, refusals = response.get("Successful") or [], response.get("Failed") or []
        named: dict[int, Mapping[str, Any]] = {}
        for entries in (taken, refusals):
            if not isinstance(entries, list):
                return Unsure(_NOT_SQS)
            for entry in entries:
                index = _index_of(entry, rows)
                if index is None or index in named:
                    return Unsure("an answer that names messages which were not sent")
                named[index] = entry
        missing = tuple(index for index in range(rows) if index not in named)
        if not refusals:
            return Accepted(failed=missing, unsure=missing)
        return self._with_failed(missing, [_index_of(each, rows) or 0 for each in refusals], named)

    def _with_failed(
        self, missing: tuple[int, ...], refusals: list[int], named: Mapping[int, Mapping[str, Any]]
    ) -> Answer:
        throttled: list[int] = []
        failed = list(missing)
        refused: dict[int, Refused] = {}
        fatal = None
        for index in refusals:
            failure = _failure_of(named[index])
            if failure.kind is FailureKind.THROTTLED:
                throttled.append(index)
            elif failure.kind is FailureKind.FATAL and failure.is_known:
                # No permission, or a key that cannot be used: nothing else would pass.
                failed.append(index)
                answer = self.failed(failure, 1, list)
                fatal = fatal or (answer.error if isinstance(answer, Fatal) else None)
            elif named[index].get("SenderFault") is True:
                refused[index] = Refused(f"{failure.code}: {failure.text}", REFUSED_BY_SQS)
            else:
                failed.append(index)
        return Accepted(
            tuple(throttled), failed=tuple(failed), unsure=missing, refused=refused, fatal=fatal
        )

    def failed(self, failure: AwsFailure, rows: int, items: SentItems) -> Answer:  # noqa: ARG002
        """Interpret a failed request. Nothing of a batch that is refused was taken."""
        if failure.kind is FailureKind.THROTTLED:
            return Throttled(failure.code)
        if failure.kind is FailureKind.UNSURE:
            return Unsure(failure.code)
        if failure.kind is FailureKind.INVALID or failure.code in _REFUSED:
            return Refused(f"{failure.code}: {failure.text}", REFUSED_BY_SQS)
        if failure.code == _MISSING:
            return Fatal(QueueNotFound(f"queue {self._queue} is not there any more"))
        if failure.code.startswith("Kms"):
            return Fatal(
                AccessDenied(
                    f"sending to queue {self._queue}: {failure.code}; the key that encrypts the"
                    " queue cannot be used: it must be enabled, and the credentials need"
                    " kms:GenerateDataKey and kms:Decrypt on it"
                )
            )
        return fatal_answer(failure, f"sending to queue {self._queue}")


def deduplication_prefix(record: RunRecord) -> str:
    """Return the beginning of a run's deduplication ids; the row's byte follows.

    The run id alone may be another run's, in another ledger. So what began when is hashed. A retry
    of a message has the same id, also after a resume.
    """
    text = f"{record.run} {record.created!r} {record.configuration}"
    return f"ddbload-{hashlib.sha256(text.encode()).hexdigest()[:32]}-"


def queue_body(url: str) -> Callable[[Sequence[str]], bytes]:
    """Return the function that makes a request's body from the members of its entries, in octets.

    They are those of `contracts.queue_messages.message_entry`.
    """
    begin = f'{{"QueueUrl":{json.dumps(url)},"Entries":['

    def body(entries: Sequence[str]) -> bytes:
        numbered = [f'{{"Id":"{index}",{entry}}}' for index, entry in enumerate(entries)]
        return f"{begin}{','.join(numbered)}]}}".encode("latin-1")

    return body


def message_of_entry(entry: str) -> dict[str, str]:
    """Return the members of an entry that is given in octets, as `QueueRequests` takes them."""
    members: dict[str, str] = json.loads(f"{{{entry}}}".encode("latin-1"))
    return members


def _index_of(entry: object, rows: int) -> int | None:
    """Return the index of the message that an entry of an answer names; None if none was sent."""
    told = entry.get("Id") if isinstance(entry, Mapping) else None
    if not isinstance(told, str) or not told.isascii() or not told.isdecimal():
        return None
    index = int(told) if len(told) < 3 else rows
    return index if index < rows and str(index) == told else None


def _failure_of(entry: Mapping[str, Any]) -> AwsFailure:
    code, text = entry.get("Code"), entry.get("Message")
    code = code if isinstance(code, str) else "an error without a code"
    return failure_of_code(code, text if isinstance(text, str) else code, 200)
