"""Move dead letters back to the upload queue, or show what they are.

SQS's own StartMessageMoveTask would move messages that can never start a run, and could not read
those of earlier versions, which had no queue. Here each message is sent before it is deleted: if
the process is killed in between, the queue delivers a second copy, and a second copy of an upload
starts no second run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.contracts.upload_rule import Upload
from ddbload.errors import DdbloadError, ServiceUnavailable

MESSAGES_OF_A_REQUEST = 10
"""SQS's limit."""
LANES = 8
"""Requests in flight: a message takes three requests for each ten."""
HIDDEN_SECONDS = 60
"""Time for which SQS hides received messages from others. After a kill they come back so late."""
MOST_SHOWN = 1000
"""Most messages that a look at the queue shows; it holds as many back from everybody else."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not start a run."""

    message_id: str
    receipt: str
    body: str
    """The upload's event, as the upload queue delivers it."""
    upload: Upload | None
    """None if the message is not an upload's event, so that it can never start a run."""
    error: str
    """Reason that the message gives, or what is known about it."""
    sent: float
    """Unix time at which the message was first sent."""

    def to_json(self) -> dict[str, Any]:
        """Return the message as JSON, without its body."""
        upload = self.upload
        return {
            "message": self.message_id,
            "bucket": upload and upload.bucket,
            "key": upload and upload.key,
            "version_id": upload and upload.version_id,
            "run": upload and upload.run,
            "sent": datetime.fromtimestamp(self.sent, UTC).isoformat(timespec="seconds"),
            "error": self.error,
        }


def read_dead_letter(received: dict[str, Any]) -> DeadLetter:
    """Read a message as ReceiveMessage returns it."""
    attributes = received.get("MessageAttributes") or {}
    given = {name: str(value.get("StringValue")) for name, value in attributes.items()}
    body, error = received["Body"], "delivered too often; the log of on_upload says why"
    if "ERROR_CODE" in given:
        # EventBridge could not deliver the event to the queue.
        error = f"{given['ERROR_CODE']}: {given.get('ERROR_MESSAGE', '')}"
    upload = None
    try:
        event = json.loads(body)
        if isinstance(event, dict) and "requestPayload" in event:
            # Lambda's record of a failed invocation, from a deployment without a queue.
            failure = event.get("responsePayload") or {}
            error = f"{failure.get('errorType')}: {failure.get('errorMessage')}"
            event = event["requestPayload"]
            body = json.dumps(event)
        upload = Upload.of(event)
    except DdbloadError as unreadable:
        error = f"{unreadable.name}: {unreadable.message}"
    except (AttributeError, ValueError, RecursionError):
        error = "InvalidPayload: the message is not an upload's event"
    sent = int((received.get("Attributes") or {}).get("SentTimestamp", 0)) / 1000
    return DeadLetter(received["MessageId"], received["ReceiptHandle"], body, upload, error, sent)


@dataclass(slots=True)
class ReplayCounts:
    """Numbers of messages after a replay."""

    moved: int = 0
    left: int = 0
    """Messages that are not uploads' events."""
    hidden: int = 0
    """About how many another command has received, or one that was killed within a minute."""


class DeadLetters:
    """The dead letters of a deployed stack. `client`: SQS's; the queues are given by URL.

    All methods raise AWS's named errors, for example `AccessDenied`.
    """

    def __init__(
        self,
        client: Any,
        dead_letters: str,
        uploads: str,
        *,
        retry_policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        self._client = client
        self._dead_letters = dead_letters
        self._uploads = uploads
        self._retry_policy = retry_policy

    def count(self, *, hidden: bool = False) -> int:
        """Return about how many messages there are, or about how many somebody has received."""
        name = f"ApproximateNumberOfMessages{'NotVisible' if hidden else ''}"
        answer = self._call(
            "counting dead letters",
            lambda: self._client.get_queue_attributes(
                QueueUrl=self._dead_letters, AttributeNames=[name]
            ),
        )
        return int(answer["Attributes"][name])

    def show(self, most: int = MOST_SHOWN) -> list[DeadLetter]:
        """Return up to `most` messages, oldest first, and leave all in the queue."""
        found: dict[str, DeadLetter] = {}
        try:
            for letters in self._receive_all(found):
                found.update((each.message_id, each) for each in letters)
                if len(found) >= most:
                    break
        finally:
            self._release(list(found.values()))
        return sorted(found.values(), key=lambda each: (each.sent, each.message_id))[:most]

    def replay(self, moved: Callable[[int], None] = lambda _: None) -> ReplayCounts:
        """Move all messages to the upload queue; `moved` is told how many at a time."""
        known: dict[str, DeadLetter] = {}
        done = ReplayCounts()
        with ThreadPoolExecutor(LANES) as lanes:
            for count in lanes.map(lambda _: self._move_all(known, moved), range(LANES)):
                done.moved += count
        done.left = len(known)
        done.hidden = max(0, self.count(hidden=True) - done.left)
        return done

    def _move_all(self, known: dict[str, DeadLetter], moved: Callable[[int], None]) -> int:
        total = 0
        for letters in self._receive_all(known):
            known.update((each.message_id, each) for each in letters if each.upload is None)
            good = [each for each in letters if each.upload is not None]
            if good:
                self._move(good)
                total += len(good)
                moved(len(good))
        return total

    def _receive_all(self, known: dict[str, DeadLetter]) -> Iterator[list[DeadLetter]]:
        """Yield messages that are not in `known` until SQS has no others."""
        while True:
            answer = self._call(
                "receiving dead letters",
                lambda: self._client.receive_message(
                    QueueUrl=self._dead_letters,
                    MaxNumberOfMessages=MESSAGES_OF_A_REQUEST,
                    VisibilityTimeout=HIDDEN_SECONDS,
                    # A short poll may miss messages, since it asks some of SQS's servers only.
                    WaitTimeSeconds=2,
                    MessageAttributeNames=["All"],
                    MessageSystemAttributeNames=["SentTimestamp"],
                ),
            )
            letters = [read_dead_letter(each) for each in answer.get("Messages", [])]
            new = [each for each in letters if each.message_id not in known]
            if not new:
                return
            yield new

    def _move(self, letters: list[DeadLetter]) -> None:
        sent = self._batch(
            "sending dead letters to the upload queue",
            self._client.send_message_batch,
            self._uploads,
            [{"Id": str(n), "MessageBody": each.body} for n, each in enumerate(letters)],
        )
        self._batch(
            "deleting dead letters",
            self._client.delete_message_batch,
            self._dead_letters,
            [{"Id": n, "ReceiptHandle": letters[int(n)].receipt} for n in sent],
        )

    def _release(self, letters: list[DeadLetter]) -> None:
        for begin in range(0, len(letters), MESSAGES_OF_A_REQUEST):
            self._batch(
                "releasing dead letters",
                self._client.change_message_visibility_batch,
                self._dead_letters,
                [
                    {"Id": str(n), "ReceiptHandle": each.receipt, "VisibilityTimeout": 0}
                    for n, each in enumerate(letters[begin : begin + MESSAGES_OF_A_REQUEST])
                ],
            )

    def _batch(
        self, doing: str, operation: Callable[..., Any], queue: str, entries: list[dict[str, Any]]
    ) -> list[str]:
        """Call a batch operation; return the ids of its entries.

        Raises `ServiceUnavailable` if an entry failed: then nothing of the batch is deleted.
        """
        answer = self._call(doing, lambda: operation(QueueUrl=queue, Entries=entries))
        if failed := answer.get("Failed"):
            raise ServiceUnavailable(
                f"{doing}: {failed[0].get('Code')}: {len(failed)} of {len(entries)} messages"
                " failed; all are in a queue still, so run ddbload replay again"
            )
        return [entry["Id"] for entry in entries]

    def _call(self, doing: str, operation: Callable[[], Any]) -> Any:
        return call_with_retries(operation, doing, policy=self._retry_policy)
