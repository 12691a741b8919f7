"""DynamoDB's answers to BatchWriteItem and PutItem from a table with limits, in real time.

The limits are those of one of the two models in `tests/sim`: `metered_table` counts units by the
second, `simulated_table` keeps *buckets* that are refilled continuously. In both each partition
takes 1,000. Items without capacity come back as UnprocessedItems; a request without any capacity
fails, as the API reference says of BatchWriteItem: "If none of the items can be processed due to
insufficient provisioned throughput on all of the tables in the request, then BatchWriteItem returns
a ProvisionedThroughputExceededException."
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from tests.sim.metered_table import MeteredTable, Rules
from tests.sim.simulated_table import Capacity, SimulatedTable

UNIT_BYTES = 1024
"""Bytes of an item per write unit."""
Item = Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class WriterCounters:
    """Requests of one writer, those with returned items, and accepted units by second."""

    requests: int = 0
    throttled: int = 0
    accepted: list[float] = field(default_factory=list)

    def count(self, second: int, accepted: float, returned: int) -> None:
        """Count one request."""
        self.requests += 1
        self.throttled += returned > 0
        self.accepted += [0.0] * (second + 1 - len(self.accepted))
        self.accepted[second] += accepted


class ThrottledTable:
    """Table that accepts items while its model has capacity."""

    def __init__(
        self,
        name: str,
        partition_key: str,
        settings: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        """Make the table.

        `settings`: `model` (`metered` or `buckets`); `salt`, which determines the placement of
        keys; `stated_units`, the provisioned units in DescribeTable, if any; and fields of the
        model's `Rules` or `Capacity`.
        """
        self.name = name
        rules = dict(settings)
        model, salt = rules.pop("model", "metered"), int(rules.pop("salt", 0))
        self.stated_units: int | None = rules.pop("stated_units", None)
        """Provisioned write units in DescribeTable; None for an on-demand table."""
        self._model: MeteredTable | SimulatedTable
        if model == "buckets":
            self._model = SimulatedTable(Capacity(**rules), salt=salt)
        else:
            self._model = MeteredTable(Rules(**rules), salt=salt)
        self._partition_key = partition_key
        self._writers: dict[str, WriterCounters] = {}
        self._clock, self._cpu = clock, cpu
        self._began = clock()
        self._first = self._last = (0.0, 0.0)

    def write(self, body: bytes, writer: str = "") -> tuple[bytes, dict[str, Any]]:
        """Accept items while there is capacity; return a request with these items, and the answer.

        The request is empty if no item was accepted; the answer is then an error. `writer`: sender.
        """
        request = json.loads(body)
        ((table, puts),) = request["RequestItems"].items()
        returned, used, error = self._take([each["PutRequest"]["Item"] for each in puts], writer)
        if error is not None:
            return b"", error
        refused = set(returned)
        taken = [put for at, put in enumerate(puts) if at not in refused]
        left = [puts[at] for at in returned]
        answer: dict[str, Any] = {"UnprocessedItems": {table: left} if left else {}}
        if "ReturnConsumedCapacity" in request:
            answer["ConsumedCapacity"] = [{"TableName": table, "CapacityUnits": used}]
        return json.dumps({"RequestItems": {table: taken}}).encode(), answer

    def put(self, body: bytes, writer: str = "") -> dict[str, Any]:
        """Answer PutItem."""
        _, _, error = self._take([json.loads(body)["Item"]], writer)
        return {} if error is None else error

    def counters(self) -> dict[str, Any]:
        """Return accepted and returned units of each second, and those of each writer.

        `busy`: share of a core that this process used between the first and the last request.
        """
        usage = self._model.usage
        (wall, cpu), (last_wall, last_cpu) = self._first, self._last
        return {
            "accepted": usage.accepted,
            "returned": usage.returned,
            "busy": (last_cpu - cpu) / max(1e-9, last_wall - wall),
            "writers": {
                name: {
                    "requests": each.requests,
                    "throttled": each.throttled,
                    "accepted": each.accepted,
                }
                for name, each in self._writers.items()
            },
        }

    def _take(
        self, items: Sequence[Item], writer: str
    ) -> tuple[list[int], float, dict[str, Any] | None]:
        """Return indexes of items without capacity, the units used, and an error or None.

        It is an error if no item was accepted.
        """
        keys = [self._hash(item) for item in items]
        units = [-(-len(json.dumps(item)) // UNIT_BYTES) for item in items]
        now = self._clock()
        self._last = (now, self._cpu())
        if not self._writers:
            self._first = self._last
        now -= self._began
        returned = self._model.take(keys, units, now)
        used = float(sum(units) - sum(units[at] for at in returned))
        self._writers.setdefault(writer, WriterCounters()).count(int(now), used, len(returned))
        error = None
        if len(returned) == len(items):
            error = self._error(all(self._model.lacks_for_key(key) for key in keys))
        return returned, used, error

    def _hash(self, item: Item) -> int:
        ((_, text),) = item[self._partition_key].items()
        return crc32(text.encode())

    def _error(self, only_partitions: bool) -> dict[str, Any]:
        limit = "KeyRange" if only_partitions else "Provisioned"
        reason = {
            "reason": f"TableWrite{limit}ThroughputExceeded",
            "resource": f"arn:aws:dynamodb:us-east-1:123456789012:table/{self.name}",
        }
        return {
            "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
            "message": "The request was denied due to request throttling.",
            "ThrottlingReasons": [reason],
        }
