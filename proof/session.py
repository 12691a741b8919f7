"""What a part works with: account, stack, sources, and where its figures and costs go."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddbload.contracts.upload_rule import Upload
from proof.account import Account, Maker, ProofError, Record
from proof.budget import ROW_BYTES, Budget, Work, run_services
from proof.deployment import Deployment, Ended
from proof.results import LEFT_OUT, MEASURED, Figure, Results

TABLES = ("tiny", "csv", "insert", "order", "slow", "stop", "four", "burst", "denied")
"""Ends of the names of the on-demand tables that the stack may write."""
PREFIXES = {"tiny/": "tiny", "burst/": "burst"}
"""Upload rules: tables by prefix."""
NOT_BILLED = "the emulation bills nothing, and takes this machine's time"
RUN_SECONDS = 900.0
"""Seconds after which a run is cancelled where its part says nothing else."""


@dataclass(slots=True)
class Session:
    """A proof under way."""

    account: Account
    record: Record
    folder: Path
    """Folder for files, removed afterwards."""
    results: Results
    budget: Budget
    part: str = ""
    """Name of the part that runs."""
    size: int = 0
    """Its size: rows, keys or uploads."""
    work: Work = field(default_factory=Work)
    """What it may cost, at most."""
    spent: float = 0.0
    """Dollars of the part that runs, estimated by what its runs used."""
    tables: dict[str, str] = field(default_factory=dict)
    bucket: str = ""
    _deployment: Deployment | None = None

    @property
    def maker(self) -> Maker:
        return Maker(self.account, self.record)

    @property
    def stack(self) -> Deployment:
        """The deployed stack. Raises `ProofError` if there is none."""
        if self._deployment is None:
            raise ProofError("the stack was not deployed")
        return self._deployment

    @stack.setter
    def stack(self, deployment: Deployment | None) -> None:
        self._deployment = deployment

    @property
    def deployed(self) -> bool:
        return self._deployment is not None

    # Figures.

    def measured(self, name: str, value: str, expected: str, source: str) -> None:
        """Add a figure beside what was expected, and the page or simulation that said so."""
        self.results.figures.append(Figure(self.part, name, MEASURED, value, expected, source))

    def leave_out(self, name: str, why: str, expected: str = "", source: str = "") -> None:
        """Add a figure that cannot be measured here, by name."""
        self.results.figures.append(Figure(self.part, name, LEFT_OUT, why, expected, source))

    def on_aws(self, name: str, value: str, expected: str, source: str, why: str) -> None:
        """Add a figure that means something on AWS only."""
        if self.account.emulated:
            self.leave_out(name, why, expected, source)
        else:
            self.measured(name, value, expected, source)

    # Costs.

    def charge(self, report: Mapping[str, Any], *, workers: int = 1) -> None:
        """Count what a run has cost: its units, and its services by their estimate."""
        services = run_services(report["bytes"], report["seconds"], workers)
        self.spent += (report["dollars"] or 0.0) + sum(services.values())

    # Sources and tables.

    def put(self, key: str, rows: Iterable[str], header: str = "id,text") -> tuple[str, int]:
        """Make an object of the sources' bucket; return its address and size."""
        with tempfile.NamedTemporaryFile("w", dir=self.folder, newline="") as file:
            file.write(f"{header}\n")
            file.writelines(rows)
            file.flush()
            self.account.client("s3").upload_file(file.name, self.bucket, key)
            return f"s3://{self.bucket}/{key}", Path(file.name).stat().st_size

    def upload(self, key: str, rows: str) -> tuple[str, float]:
        """Upload to the inbox; return the id of the run that it starts, and the time before it."""
        bucket, begun = self.stack.inbox, time.monotonic()
        made = self.account.client("s3").put_object(
            Bucket=bucket, Key=key, Body=f"id,text\n{rows}".encode()
        )
        return Upload(bucket, key, made.get("VersionId"), made["ETag"].strip('"')).run, begun

    def count(self, table: str, **wanted: str) -> int:
        """Count the items of a table, or those whose attribute `text` has a value."""
        request: dict[str, Any] = {"TableName": self.tables[table], "ConsistentRead": True}
        if wanted:
            request |= {
                "FilterExpression": "#text = :text",
                "ExpressionAttributeNames": {"#text": "text"},
                "ExpressionAttributeValues": {":text": {"S": wanted["text"]}},
            }
        pages = self.account.client("dynamodb").get_paginator("scan")
        return sum(page["Count"] for page in pages.paginate(Select="COUNT", **request))


def rows(count: int, first: int = 0, text: str = "") -> Iterable[str]:
    """Generate rows of about `ROW_BYTES` bytes with different ids."""
    fill = text or "x" * (ROW_BYTES - 12)
    return (f"r{number:09d},{fill}\n" for number in range(first, first + count))


def require(holds: object, otherwise: str) -> None:
    """Raise `ProofError` unless something holds."""
    if not holds:
        raise ProofError(otherwise)


def median(values: Sequence[float]) -> float:
    """Return the upper median."""
    return sorted(values)[len(values) // 2]


def succeeded(ended: Ended, written: int) -> None:
    """Require that a run has written so many rows, and rejected none. Raises `ProofError`."""
    detail = ended.detail
    require(
        (ended.status, detail["rows"]["written"]) == ("SUCCEEDED", written),
        f"run {detail['run']}: {ended.status}, {detail['rows']['written']} of {written} rows,"
        f" {detail['error']}",
    )
