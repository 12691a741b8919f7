"""Estimate the read units that a comparison needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddbload.aws.table_description import (
    STANDARD_IA,
    is_on_demand,
    read_capacity,
    table_class_of,
)
from ddbload.contracts.options import parse_percent
from ddbload.contracts.write_price import (
    LIST_PRICE_REGION,
    READ_UNIT_PRICE,
    READ_UNIT_PRICE_IA,
    amount_text,
)
from ddbload.verify.table_reader import READ_UNIT_BYTES

DEFAULT_PERCENT = 50.0
"""Share of a provisioned table's read capacity that a comparison uses unless told otherwise."""
_SMALL_ITEM_BYTES = 100


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """Settings of a comparison."""

    sample: float | None = None
    """Keys of the source to look up: a number, or as a float a share; None for all of the table."""
    ignored: frozenset[str] = frozenset()
    """Attributes that are left out."""
    ignore_extra_attributes: bool = False
    """Compare only the attributes that the row of an item has."""
    consistent: bool = True
    max_rcu: float | str | None = None
    """Most read units a second, or a share of the table's such as `50%`; None for the default."""


@dataclass(frozen=True, slots=True)
class ReadEstimate:
    """Read units that a comparison needs, by AWS's last count of the table."""

    table_items: int
    table_bytes: int
    units: float
    unit_price: float
    """Dollars for a million read units by us-east-1's list price."""
    is_billed: bool
    """False for a provisioned table, which bills no units."""
    units_per_second: float | None
    """Limit of the rate; None for as many as the table gives."""

    @property
    def dollars(self) -> float:
        """Price of the comparison."""
        return self.price(self.units)

    def price(self, units: float) -> float:
        """Return the price of read units; 0 if they are not billed."""
        return units * self.unit_price / 1e6 if self.is_billed else 0.0

    def units_for(self, dollars: float) -> float:
        """Return the read units that an amount buys."""
        return dollars * 1e6 / self.unit_price

    @property
    def item_bytes(self) -> float:
        """Size of an average item; one read unit's if it is not known."""
        return self.table_bytes / self.table_items if self.table_items else float(READ_UNIT_BYTES)

    def text(self, table: str, *, consistent: bool) -> str:
        """Say what the comparison needs and costs, in one line."""
        amount = amount_text(self.dollars)
        about = "" if amount.startswith("less") else "about "
        price = " of its provisioned capacity"
        if self.is_billed:
            price = f", {about}{amount} by {LIST_PRICE_REGION}'s list price"
        rate, limit = self.units_per_second, ""
        if rate is not None:
            seconds = max(1.0, self.units / rate)
            limit = f", at most {rate:,.0f} a second, which takes about {seconds:,.0f} s"
        units = f"{self.units:,.0f} read unit{'s' * (round(self.units) != 1)}"
        how = "" if consistent else ", eventually consistent"
        return (
            f"reading table {table} takes about {units}{how}{price}{limit}; AWS last counted"
            f" {self.table_items:,} items and {self.table_bytes:,} bytes there, and counts about"
            " every six hours"
        )


def estimate_reads(
    described: Mapping[str, Any], settings: VerifySettings, source_bytes: int
) -> ReadEstimate:
    """Estimate the read units of a comparison. `described`: the `Table` of DescribeTable."""
    items = int(described.get("ItemCount") or 0)
    counted = int(described.get("TableSizeBytes") or 0)
    # AWS counts every six hours: a table that was loaded just now may count as empty.
    table_bytes = max(counted, source_bytes)
    weight = 1.0 if settings.consistent else 0.5
    if settings.sample is None:
        units = weight * math.ceil(table_bytes / READ_UNIT_BYTES)
    else:
        each = counted / items if items else 0.0
        keys = settings.sample
        if isinstance(keys, float):
            keys = math.ceil(keys * max(items, source_bytes / max(each, _SMALL_ITEM_BYTES)))
        units = weight * keys * max(1, math.ceil(each / READ_UNIT_BYTES))
    billed = is_on_demand(described)
    price = READ_UNIT_PRICE_IA if table_class_of(described) == STANDARD_IA else READ_UNIT_PRICE
    return ReadEstimate(
        items,
        counted,
        units,
        price,
        billed,
        _rate_limit(described, settings.max_rcu, on_demand=billed),
    )


def _rate_limit(
    described: Mapping[str, Any], max_rcu: float | str | None, *, on_demand: bool
) -> float | None:
    if isinstance(max_rcu, float | int):
        return float(max_rcu)
    if max_rcu is None and on_demand:
        return None
    percent = DEFAULT_PERCENT if max_rcu is None else parse_percent(max_rcu)
    return max(1.0, read_capacity(described) * (percent or DEFAULT_PERCENT) / 100)
