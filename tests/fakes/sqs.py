"""SQS in memory: messages are hidden once received, until a test lets their time pass."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class FakeSqs:
    """Queues by URL."""

    queues: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    before: Callable[[str], None] = lambda _: None
    """Called with the name of each operation before it takes effect; may raise."""
    _numbers: Any = field(default_factory=itertools.count)
    _lock: Any = field(default_factory=threading.Lock)

    def put(self, queue: str, body: str, **attributes: str) -> None:
        number = next(self._numbers)
        name = f"m{number}"
        self.queues.setdefault(queue, {})[name] = {
            "MessageId": name,
            "ReceiptHandle": f"r-{name}",
            "Body": body,
            "Attributes": {"SentTimestamp": str(1_700_000_000_000 + number)},
            "MessageAttributes": {
                key: {"DataType": "String", "StringValue": value}
                for key, value in attributes.items()
            },
        }

    def bodies(self, queue: str) -> list[str]:
        return [each["Body"] for each in self.queues.get(queue, {}).values()]

    def show_all(self) -> None:
        """Let the visibility timeout of all received messages pass."""
        self.hidden.clear()

    def _begin(self, operation: str) -> None:
        self.calls.append(operation)
        self.before(operation)

    def receive_message(self, *, QueueUrl: str, MaxNumberOfMessages: int, **_: Any) -> Any:  # noqa: N803 - botocore's own names
        self._begin("receive")
        with self._lock:
            seen = [
                message
                for name, message in list(self.queues.get(QueueUrl, {}).items())
                if name not in self.hidden
            ][:MaxNumberOfMessages]
            self.hidden |= {message["MessageId"] for message in seen}
        return {"Messages": seen} if seen else {}

    def send_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803
        self._begin("send")
        assert len(Entries) <= 10
        for entry in Entries:
            self.put(QueueUrl, entry["MessageBody"])
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def delete_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803
        self._begin("delete")
        for entry in Entries:
            del self.queues[QueueUrl][entry["ReceiptHandle"].removeprefix("r-")]
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803
        self._begin("release")
        assert QueueUrl in self.queues
        for entry in Entries:
            assert entry["VisibilityTimeout"] == 0
            self.hidden.discard(entry["ReceiptHandle"].removeprefix("r-"))
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: list[str]) -> Any:  # noqa: N803
        self._begin("count")
        (name,) = AttributeNames
        all_names = set(self.queues.get(QueueUrl, {}))
        counted = all_names & self.hidden if "NotVisible" in name else all_names - self.hidden
        return {"Attributes": {name: str(len(counted))}}
