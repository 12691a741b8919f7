"""Patch SQS: queues invoke functions in batches, and their policies are evaluated.

moto would invoke the function within the call that sends a message, a second time after a failure,
and ignore the function's result. Two differences from AWS: failed messages come back after the
emulator's `retry_seconds`, not after the queue's visibility timeout, and Lambda starts with the
full MaximumConcurrency.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from fnmatch import fnmatchcase
from typing import Any

from moto.awslambda.exceptions import InvalidParameterValueException
from moto.awslambda.models import EventSourceMapping, LambdaBackend
from moto.core.common_models import CloudFormationModel
from moto.sqs.models import Message, Queue, sqs_backends

from localaws.call_observers import check_json_call
from localaws.functions.invoker import Invoker
from localaws.functions.queue_batches import QueueMessage, batch_event, failed_messages
from localaws.patches.functions import to_function
from localaws.patches.monkeypatch import original, replace
from localaws.patches.template_resource import TemplateResource

_LOG = logging.getLogger(__name__)
_CONCURRENCY = 5
"""Batches that Lambda processes at once, if there is no MaximumConcurrency."""
_LOOK_SECONDS = 0.2
_ACTIONS = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")


def apply(invoker: Invoker) -> None:
    """Read queues that are mapped to functions, while the mapping exists."""
    create = original(LambdaBackend, "create_event_source_mapping")

    def create_event_source_mapping(
        self: LambdaBackend, spec: dict[str, Any]
    ) -> EventSourceMapping:
        mapping: EventSourceMapping = create(self, spec)
        if mapping.event_source_arn.split(":")[2] != "sqs":
            return mapping
        reader = _QueueReader(self, mapping, invoker)
        # moto would read the queue itself.
        reader.queue.lambda_event_source_mappings.clear()
        try:
            reader.check()
        except InvalidParameterValueException:
            self.delete_event_source_mapping(mapping.uuid)
            raise
        threading.Thread(target=reader.run, name=reader.queue.name, daemon=True).start()
        return mapping

    replace(LambdaBackend, "create_event_source_mapping", create_event_source_mapping)


def permits(queue: Queue, source_arn: str) -> bool:
    """Return whether the queue's policy lets EventBridge send to it for a rule."""
    document = getattr(queue, "localaws_policy", None) or json.loads(queue.policy or "{}")
    for statement in document.get("Statement", []):
        principal = statement.get("Principal")
        service = principal.get("Service") if isinstance(principal, dict) else principal
        if service not in ("events.amazonaws.com", "*") or statement["Effect"] != "Allow":
            continue
        actions = statement["Action"]
        if "sqs:SendMessage" not in ([actions] if isinstance(actions, str) else actions):
            continue
        condition = statement.get("Condition") or {}
        sources = [
            source
            for operator in condition.values()
            for key, value in operator.items()
            if key.lower() == "aws:sourcearn"
            for source in ([value] if isinstance(value, str) else value)
        ]
        if not sources or any(fnmatchcase(source_arn, source) for source in sources):
            return True
    return False


class _QueueReader:
    """Reader of one queue for one function, as in Lambda."""

    def __init__(
        self, backend: LambdaBackend, mapping: EventSourceMapping, invoker: Invoker
    ) -> None:
        self._backend = backend
        self._mapping = mapping
        self._invoker = invoker
        *_, self._region, account, name = mapping.event_source_arn.split(":")
        self._messages = sqs_backends[account][self._region]
        self.queue: Queue = self._messages.get_queue(name)
        most = (mapping.scaling_config or {}).get("MaximumConcurrency", _CONCURRENCY)
        self._free = threading.Semaphore(int(most))

    def check(self) -> None:
        """Raise Lambda's error for a role or a timeout that does not fit the queue."""
        function = self._function()
        for action in _ACTIONS:
            if self._refused(action) is not None:
                raise InvalidParameterValueException(
                    f"The provided execution role does not have permissions to call {action} on SQS"
                )
        visible = int(self.queue.visibility_timeout)  # type: ignore[attr-defined]
        if visible < function.timeout:
            raise InvalidParameterValueException(
                f"Queue visibility timeout: {visible} seconds is less than Function timeout:"
                f" {function.timeout} seconds"
            )

    def run(self) -> None:
        """Receive batches, and invoke the function for each, until the mapping is deleted."""
        while self._mapping.uuid in self._backend._event_source_mappings:  # noqa: SLF001 - moto has no public name
            try:
                self._read()
            except Exception:  # noqa: BLE001 - the thread goes on
                _LOG.exception("could not read the queue %s", self.queue.name)
                time.sleep(1)

    def _read(self) -> None:
        self.queue.wait_for_messages(_LOOK_SECONDS)  # type: ignore[arg-type]
        if not self._mapping.enabled or not self.queue.messages:
            return
        if (refused := self._refused("ReceiveMessage")) is not None:
            _LOG.warning("could not read the queue %s: %s", self.queue.name, refused)
            time.sleep(1)
            return
        self._free.acquire()
        received = self._messages.receive_message(
            self.queue.name,
            min(10, self._mapping.batch_size),
            0,
            int(self.queue.visibility_timeout),  # type: ignore[attr-defined]
        )
        if not received:
            self._free.release()
            return
        threading.Thread(
            target=self._process, args=(received,), name=f"batch of {self.queue.name}", daemon=True
        ).start()

    def _process(self, received: list[Message]) -> None:
        try:
            event = batch_event([_message(each) for each in received], self.queue.queue_arn)
            outcome = self._invoker.invoke(to_function(self._function()), event)
            types = self._mapping.function_response_types or []
            failed = failed_messages(
                outcome,
                [each.id for each in received],
                partial="ReportBatchItemFailures" in types,
            )
            for message in received:
                if message.id in failed or self._refused("DeleteMessage") is not None:
                    self._return(message)
                else:
                    self.queue.delete_message(message.receipt_handle or "")
        except Exception:  # noqa: BLE001 - the thread ends here
            # The messages come back when their visibility timeout is over.
            _LOG.exception("a batch of the queue %s failed", self.queue.name)
        finally:
            self._free.release()

    def _return(self, received: Message) -> None:
        # A received message is a copy.
        for message in self.queue._messages:  # noqa: SLF001 - moto has no public name
            if message.id == received.id:
                message.visible_at = (time.time() + self._invoker.retry_seconds) * 1000

    def _function(self) -> Any:
        return self._backend.get_function(self._mapping.function_arn)

    def _refused(self, action: str) -> str | None:
        url = f"/{self.queue.account_id}/{self.queue.name}"
        return check_json_call(
            self._function().role, "sqs", self._region, f"AmazonSQS.{action}", {"QueueUrl": url}
        )


def _message(received: Message) -> QueueMessage:
    return QueueMessage(
        id=received.id,
        receipt=received.receipt_handle or "",
        body=received.body,
        md5=received.body_md5,
        attributes={
            "ApproximateReceiveCount": str(received.approximate_receive_count),
            "SentTimestamp": str(received.sent_timestamp),
            "SenderId": received.sender_id,
            "ApproximateFirstReceiveTimestamp": str(received.approximate_first_receive_timestamp),
        },
    )


class _QueuePolicyResource(TemplateResource, CloudFormationModel):
    TYPE = "AWS::SQS::QueuePolicy"

    @classmethod
    def attach(cls, properties: dict[str, Any], account: str, region: str) -> None:
        """Store the policy of each queue for `permits`."""
        for url in properties["Queues"]:
            queue: Any = sqs_backends[account][region].get_queue(url.rsplit("/", 1)[-1])
            queue.localaws_policy = properties["PolicyDocument"]
