"""Price a higher warm throughput of a table, and the request that sets it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.list_prices import LIST_PRICE_REGION, WARM_UNIT
from ddbload.contracts.write_price import amount_text


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Change of a table's warm throughput, and of its global indexes', to a number of units."""

    table: str
    wanted: int
    """Write units a second."""
    table_now: int
    indexes: Mapping[str, int]
    """Present units of the global indexes that have fewer."""
    regions: int = 1
    """Regions of a global table: all replicas are warmed."""

    @property
    def more(self) -> int:
        """Write units a second that are added, in one region."""
        return max(0, self.wanted - self.table_now) + sum(
            self.wanted - now for now in self.indexes.values()
        )

    @property
    def dollars(self) -> float:
        """Price of the change, in all regions."""
        return self.more * self.regions * WARM_UNIT

    @property
    def how(self) -> str:
        """Calculation of the price."""
        times = f" x {self.regions} regions" if self.regions > 1 else ""
        return (
            f"{self.more:,} more write units{times} x ${WARM_UNIT:.5f}, once; it cannot be reverted"
        )

    @property
    def question(self) -> str:
        """Question to the user who pays for it."""
        return (
            f"Raise the warm throughput of table {self.table}"
            f"{' and its indexes' if self.indexes else ''} to {self.wanted:,} write units a second"
            f" for about {amount_text(self.dollars)} ({self.how}; {LIST_PRICE_REGION} list price)?"
        )

    @property
    def request(self) -> dict[str, Any]:
        """Parameters of UpdateTable."""
        warm = {"WriteUnitsPerSecond": self.wanted}
        request: dict[str, Any] = {"TableName": self.table}
        if self.table_now < self.wanted:
            request["WarmThroughput"] = warm
        if self.indexes:
            request["GlobalSecondaryIndexUpdates"] = [
                {"Update": {"IndexName": name, "WarmThroughput": warm}} for name in self.indexes
            ]
        return request

    @property
    def command(self) -> str:
        """Command of the AWS CLI that makes the change."""
        request = self.request
        words = ["aws", "dynamodb", "update-table", "--table-name", self.table]
        if "WarmThroughput" in request:
            words += ["--warm-throughput", f"WriteUnitsPerSecond={self.wanted}"]
        if self.indexes:
            updates = json.dumps(request["GlobalSecondaryIndexUpdates"])
            words += ["--global-secondary-index-updates", updates]
        return shlex.join(words)
