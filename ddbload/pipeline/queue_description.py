"""Look at the queue that a run sends messages to."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import RetryPolicy, call_with_retries
from ddbload.contracts.options import QUEUE_KIND
from ddbload.contracts.payload import OtherTarget
from ddbload.contracts.queue_messages import MOST_BYTES, MOST_ID_CHARACTERS
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.contracts.target import QueueTarget
from ddbload.errors import AccessDenied, QueueNotFound, QueueReplaced, RequestRefused

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients

_MISSING = "QueueDoesNotExist"
_PERMISSIONS = "sqs:GetQueueUrl, sqs:GetQueueAttributes and sqs:SendMessage"


def describe_queue(target: OtherTarget, clients: AwsClients, *, retry_policy: RetryPolicy) -> Table:
    """Check that the queue is there, and return what stands for a table in the run's record.

    Raises `QueueNotFound`, `AccessDenied`, and AWS's errors.
    """
    assert isinstance(target, QueueTarget)  # noqa: S101 - by its kind
    asked = _QueueLook(clients, target.queue, retry_policy)
    url = asked.url()
    attributes = asked.attributes(url)
    keys = tuple(KeyAttribute(name, "S", MOST_ID_CHARACTERS) for name in target.templates)
    return Table(
        target.name,
        queue_id(attributes),
        keys,
        kind=QUEUE_KIND,
        url=url,
        message_bytes=min(int(attributes.get("MaximumMessageSize", MOST_BYTES)), MOST_BYTES),
    )


def require_same_queue(
    target: OtherTarget, table: Table, clients: AwsClients, *, retry_policy: RetryPolicy
) -> None:
    """Raise `QueueReplaced` for a queue that was deleted and made again, as well as AWS's errors.

    Raises `QueueNotFound` if it was only deleted.
    """
    assert isinstance(target, QueueTarget)  # noqa: S101 - by its kind
    asked = _QueueLook(clients, target.queue, retry_policy, gone=True)
    if queue_id(asked.attributes(table.url or "")) != table.id:
        raise QueueReplaced(
            f"queue {target.queue} was deleted and made again while this run sent to it: the"
            " messages that were sent before are gone, and some may be in the new queue; start a"
            " new run (another run id)"
        )


def queue_id(attributes: dict[str, str]) -> str:
    """Return what no other queue has, and none of the same name that is made later."""
    created = attributes["CreatedTimestamp"].partition(".")[0]
    return f"{attributes['QueueArn']}@{created}"


@dataclass(frozen=True, slots=True)
class _QueueLook:
    """The calls that look at a queue, with their errors."""

    clients: AwsClients
    name: str
    retry_policy: RetryPolicy
    gone: bool = False
    """Whether the queue was there before."""

    def url(self) -> str:
        answer = self._call(lambda: self.clients.sqs.get_queue_url(QueueName=self.name))
        return str(answer["QueueUrl"])

    def attributes(self, url: str) -> dict[str, str]:
        # By names, a standard queue would have to be asked for fewer than a FIFO queue.
        answer = self._call(
            lambda: self.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        )
        attributes: dict[str, str] = answer.get("Attributes", {})
        if not {"QueueArn", "CreatedTimestamp"} <= attributes.keys():
            raise RequestRefused(
                f"looking at queue {self.name}: the answer has neither ARN nor creation time; check"
                " the endpoint (--endpoint-url, AWS_ENDPOINT_URL_SQS)"
            )
        return attributes

    def _call(self, call: Any) -> Any:
        return call_with_retries(
            call, f"looking at queue {self.name}", policy=self.retry_policy, expected=self._expected
        )

    def _expected(self, failure: AwsFailure) -> Exception | None:
        if failure.code == _MISSING:
            return self._missing()
        if failure.code in ("AccessDenied", "AccessDeniedException"):
            # SQS may answer so, too, where the queue is another account's or region's.
            return AccessDenied(
                f"looking at queue {self.name}: {failure.code}: {failure.text}; check the queue's"
                f" name, the region (--region) and the permissions: {_PERMISSIONS}"
            )
        return None

    def _missing(self) -> QueueNotFound:
        if self.gone:
            return QueueNotFound(f"queue {self.name} is not there any more")
        region = self.clients.sqs.meta.region_name
        return QueueNotFound(
            f"there is no queue {self.name} in {region} (ddbload creates none; --region names"
            f" another region){self._suggestion()}"
        )

    def _suggestion(self) -> str:
        from ddbload.contracts.nearest_names import did_you_mean

        names: list[str] = []
        # The credentials may not allow it.
        with suppress(Exception):
            urls = self.clients.sqs.list_queues(MaxResults=1000).get("QueueUrls", [])
            names = [str(url).rpartition("/")[2] for url in urls]
        return did_you_mean(self.name, names)
