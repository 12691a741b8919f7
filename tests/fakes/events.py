"""EventBridge in memory: it keeps the events that are put on the default bus."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class FakeEvents:
    """The default event bus."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    failures: list[Any] = field(default_factory=list)
    """What becomes of the next calls: an exception, or the code of an entry that is refused."""

    def put_events(self, *, Entries: list[dict[str, Any]]) -> Any:  # noqa: N803 - botocore's own name
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, Exception):
            raise failure
        if failure is not None:
            return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": failure}]}
        self.entries += Entries
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in Entries]}

    @property
    def details(self) -> list[dict[str, Any]]:
        return [json.loads(each["Detail"]) for each in self.entries]
