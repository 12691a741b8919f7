"""Look up the price of write units in AWS's price list, with a cache on disk."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import call_if_possible
from ddbload.pipeline.table_notices import is_aws_endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddbload.aws.clients import AwsClients

PRICE_LIST_REGION = "us-east-1"
"""One of the few regions with an endpoint of the Price List Query API, for prices of all."""
CACHE_SECONDS, FAILED_SECONDS = 7 * 86_400.0, 3600.0
"""Seconds for which a price, or that there is none to be had, is kept."""
_FAMILY = "Amazon DynamoDB PayPerRequest Throughput"
_USAGE = "WriteRequestUnits"
"""End of the usage type; Standard-IA's is IA-WriteRequestUnits, and a region may precede it
("Best practices for understanding your AWS billing and usage reports")."""
_SANE = (0.01, 100.0)
"""Dollars a million: a price outside is a misread answer."""


def published_price(
    clients: AwsClients, *, infrequent: bool, now: float, cache: Path | None
) -> float | None:
    """Return the list price of a million write units in the clients' region; None if unknown.

    Asked only of AWS itself, where prices are in dollars. `infrequent`: for tables of class
    Standard-IA. `now`: seconds since the epoch. `cache`: file that keeps answers.
    """
    client = clients.dynamodb
    if not is_aws_endpoint(client.meta.endpoint_url) or client.meta.partition != "aws":
        return None
    region = client.meta.region_name
    key = f"{region} {'infrequent' if infrequent else 'standard'}"
    known = _read_cache(cache)
    entry = known.get(key)
    if isinstance(entry, dict) and _is_fresh(entry, now):
        return _known_price(entry)
    found = call_if_possible(
        lambda: find_write_price(_products(clients, region), infrequent=infrequent),
        f"reading the price of write units in {region}",
    )
    _write_cache(cache, {**known, key: {"price": found, "at": now}})
    return found


def _products(clients: AwsClients, region: str) -> Iterable[str]:
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in (("regionCode", region), ("productFamily", _FAMILY))
    ]
    answer: Any = clients.advisory("pricing", PRICE_LIST_REGION).get_products(
        ServiceCode="AmazonDynamoDB", Filters=filters, FormatVersion="aws_v1", MaxResults=100
    )
    return [str(each) for each in answer["PriceList"]]


def find_write_price(products: Iterable[str], *, infrequent: bool) -> float | None:
    """Find the price of a million write units among products of the price list, as JSON texts."""
    for text in products:
        product = json.loads(text)
        usage = str(product["product"]["attributes"].get("usagetype", ""))
        if not usage.endswith(_USAGE) or "Repl" in usage:
            continue
        if usage.endswith(f"IA-{_USAGE}") is not infrequent:
            continue
        for term in product["terms"]["OnDemand"].values():
            for dimension in term["priceDimensions"].values():
                price = round(float(dimension["pricePerUnit"]["USD"]) * 1e6, 9)
                # A free tier's price is 0.
                if _SANE[0] <= price <= _SANE[1]:
                    return price
    return None


def price_cache() -> Path | None:
    """Return the file of the cache, in XDG's folder for caches; None without a home folder."""
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(named) if named else Path.home() / ".cache"
    except RuntimeError:
        return None
    return folder / "ddbload" / "write_prices.json"


def _is_fresh(entry: dict[str, Any], now: float) -> bool:
    at = entry.get("at")
    if not isinstance(at, int | float):
        return False
    return 0 <= now - at < (FAILED_SECONDS if _known_price(entry) is None else CACHE_SECONDS)


def _known_price(entry: dict[str, Any]) -> float | None:
    price = entry.get("price")
    return float(price) if isinstance(price, int | float) and price > 0 else None


def _read_cache(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_cache(path: Path | None, entries: dict[str, Any]) -> None:
    """Write the cache at once, so that another process never reads a part of it."""
    if path is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(entries), "utf-8")
        new.replace(path)
