"""AWS's list prices in us-east-1 in US dollars, and the price of a run's write units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from ddbload.contracts.messages import JsonRule, Message

MOST_UNITS = 1e12
"""More write units than a run consumes, and more a second than a table accepts."""

GIVEN, LIST_PRICE, NOT_BILLED = PRICE_SOURCES = ("given", "us-east-1", "provisioned")
"""Origins of a price: the user, the list price, and none, because a provisioned table bills
capacity and not units."""


@dataclass(frozen=True, slots=True)
class WritePrice(Message):
    """Price of the write units of a run, as its record keeps it."""

    dollars_per_million: float
    """Dollars for a million units in one region; 0 where units are not billed."""
    source: Annotated[str, JsonRule(choices=PRICE_SOURCES)]
    region: str
    """Region of the table."""
    regions: Annotated[int, JsonRule(least=1)] = 1
    """Number of regions that bill each unit: several for a global table."""

    @classmethod
    def of(
        cls,
        region: str,
        *,
        on_demand: bool,
        infrequent: bool = False,
        regions: int = 1,
        given: float | None = None,
    ) -> Self:
        """Choose the price: the given one, or the list price of us-east-1.

        A provisioned table bills no units; but its user may give a price to count with.
        """
        if given is not None:
            return cls(given, GIVEN, region, regions)
        if not on_demand:
            return cls(0.0, NOT_BILLED, region, regions)
        price = WRITE_UNIT_PRICE_IA if infrequent else WRITE_UNIT_PRICE
        return cls(price, LIST_PRICE, region, regions)

    @property
    def dollars_per_unit(self) -> float:
        """Dollars for one unit in all regions; 0 where units are not billed."""
        return self.dollars_per_million * self.regions / 1e6

    def dollars(self, units: float) -> float:
        """Return the price of consumed write units."""
        return units * self.dollars_per_unit

    def units(self, dollars: float) -> float | None:
        """Return the write units that an amount buys; None where units are not billed."""
        if not self.dollars_per_million:
            return None
        return min(MOST_UNITS, dollars * 1e6 / (self.dollars_per_million * self.regions))

    @property
    def origin(self) -> str:
        """Origin of the price, for people."""
        return {
            GIVEN: "as given",
            LIST_PRICE: f"{LIST_PRICE_REGION} list price of {LIST_PRICE_DATE}",
            NOT_BILLED: "provisioned capacity is billed by the hour, not by unit",
        }[self.source]

    @property
    def text(self) -> str:
        """Price and origin: `$0.625 a million (us-east-1 list price of 2026-11)`."""
        if self.source == NOT_BILLED:
            return self.origin
        where = f" in each of {self.regions} regions" if self.regions > 1 else ""
        return f"{dollars_text(self.dollars_per_million)} a million{where} ({self.origin})"


def dollars_text(amount: float) -> str:
    """Format a price with at least two decimals, and as many more as it has, up to six."""
    shown = f"{amount:,.6f}".rstrip("0")
    whole, _, decimals = shown.partition(".")
    return f"${whole}.{decimals.ljust(2, '0')}"


def amount_text(amount: float) -> str:
    """Format an amount of money: to the cent, or to a hundredth of it below ten cents."""
    if 0 < amount < 0.0001:
        return "less than $0.0001"
    return f"${amount:,.2f}" if amount >= 0.1 or amount == 0 else f"${amount:,.4f}"


LIST_PRICE_REGION = "us-east-1"
LIST_PRICE_DATE = "2026-11"
"""Month in which all of these prices were last checked."""

# DynamoDB. Names with IA are for the table class Standard-IA.
WRITE_UNIT_PRICE, WRITE_UNIT_PRICE_IA = 0.625, 0.78
"""Dollars for a million on-demand write units. In a global table each region bills them."""
READ_UNIT_PRICE, READ_UNIT_PRICE_IA = 0.125, 0.155
"""Dollars for a million on-demand read units."""
CAPACITY_HOUR, CAPACITY_HOUR_IA = 0.00065, 0.00081
"""Price of a provisioned write capacity unit per hour."""
WARM_UNIT = 0.00065
"""Price of a write unit a second of warm throughput above what the table has, once and per region.
"""
RECOVERY_GB_MONTH = 0.20
"""Price of point-in-time recovery per GB and month."""
IMPORT_GB = 0.15
"""Price of ImportTable per GB of uncompressed source: "Data import from Amazon S3" in "Amazon
DynamoDB pricing for on-demand capacity". It consumes no write units, and indexes are included
("DynamoDB data import from Amazon S3: how it works")."""

# Other services.
GB_SECOND = 0.0000133334
"""Price of Lambda on arm64 per GB-second."""
INVOCATION = 0.20 / 1e6
TRANSITION = 0.025 / 1e3
S3_WRITE = 0.005 / 1e3
"""Price of an S3 PUT or LIST request."""
S3_READ = 0.0004 / 1e3
METRIC_MONTH = 0.30
LOG_GB = 0.50
