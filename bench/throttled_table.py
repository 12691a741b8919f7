"""DynamoDB's answers to BatchWriteItem from a table with limits, in real time.

The limits are those of `tests/sim/metered_table.py`: units are counted by the second, and each
partition takes 1,000. Items without capacity come back as UnprocessedItems; a request without any
capacity fails, as the API reference says of BatchWriteItem: "If none of the items can be processed
due to insufficient provisioned throughput on all of the tables in the request, then BatchWriteItem
returns a ProvisionedThroughputExceededException."
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

from tests.sim.metered_table import MeteredTable, Rules

UNIT_BYTES = 1024
"""Bytes of an item for one write unit."""


class ThrottledTable:
    """Table that takes items until its units of the present second are used."""

    def __init__(
        self,
        name: str,
        partition_key: str,
        settings: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the table. `settings`: fields of `Rules`, and `salt`, by which keys are placed."""
        self.name = name
        rules = {field: value for field, value in settings.items() if field != "salt"}
        self._partition_key = partition_key
        self._model = MeteredTable(Rules(**rules), salt=int(settings.get("salt", 0)))
        self._clock = clock
        self._began = clock()

    def write(self, body: bytes) -> tuple[bytes, dict[str, Any]]:
        """Take what there is capacity for. Return the request for this alone, and the answer.

        The request is empty if nothing was taken, and the answer is then an error.
        """
        request = json.loads(body)
        ((table, puts),) = request["RequestItems"].items()
        items = [each["PutRequest"]["Item"] for each in puts]
        keys = [self._hash(item) for item in items]
        units = [-(-len(json.dumps(item)) // UNIT_BYTES) for item in items]
        now = self._clock() - self._began
        returned = self._model.take(keys, units, now)
        if len(returned) == len(puts):
            return b"", self._error(all(self._model.lacks_for_key(key) for key in keys))
        refused = set(returned)
        taken = [put for at, put in enumerate(puts) if at not in refused]
        left = [puts[at] for at in returned]
        answer: dict[str, Any] = {"UnprocessedItems": {table: left} if left else {}}
        if "ReturnConsumedCapacity" in request:
            used = float(sum(units) - sum(units[at] for at in returned))
            answer["ConsumedCapacity"] = [{"TableName": table, "CapacityUnits": used}]
        return json.dumps({"RequestItems": {table: taken}}).encode(), answer

    def counters(self) -> dict[str, list[float]]:
        """Return the accepted and the returned units of each second."""
        usage = self._model.usage
        return {"accepted": usage.accepted, "returned": usage.returned}

    def _hash(self, item: Mapping[str, Mapping[str, str]]) -> int:
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
