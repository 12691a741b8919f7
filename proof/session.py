"""What a part works with: account, stack, sources, and where its figures and costs go."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddbload.contracts.upload_rule import Upload
from proof.account import Account, Maker, Record, require
from proof.budget import ROW_BYTES, Budget, Work, run_services
from proof.deployment import Deployment, Ended
from proof.results import LEFT_OUT, MEASURED, Figure, Results

RUN_SECONDS = 900.0
"""Seconds after which a run is given up where its part says nothing else."""


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
    """Name of the part that runs, and what it measures."""
    expected: Mapping[str, Sequence[str]] = field(default_factory=dict)
    size: int = 0
    """Its size: rows, keys or uploads."""
    work: Work = field(default_factory=Work)
    """What it may cost, at most."""
    spent: float = 0.0
    """Dollars that it has spent, estimated by what its runs used."""
    tables: dict[str, str] = field(default_factory=dict)
    bucket: str = ""
    deployment: Deployment | None = None

    @property
    def maker(self) -> Maker:
        return Maker(self.account, self.record)

    @property
    def stack(self) -> Deployment:
        """The deployed stack."""
        assert self.deployment is not None  # noqa: S101 - no part runs without it
        return self.deployment

    def figure(self, name: str, value: str, *calculated: object) -> None:
        """Add a figure beside what was expected; leave it out, by name, where it means nothing.

        `calculated`: what stands for `{}` in the expectation.
        """
        expected, source, *not_emulated = self.expected[name]
        status = MEASURED
        if not_emulated and self.account.emulated:
            status, value = LEFT_OUT, not_emulated[0]
        expected = expected.format(*calculated)
        self.results.figures.append(Figure(self.part, name, status, value, expected, source))

    def charge(self, size: int, seconds: float, dollars: float | None) -> None:
        """Count what a run has cost: its write units, and its services by their estimate."""
        services = run_services(size, seconds, self.work.workers)
        self.spent += (dollars or 0.0) + sum(services.values())

    def load(self, run: str, source: str, table: str, *words: str) -> Any:
        """Run `ddbload start` to its end, and count its cost; return its report."""
        seconds = self.work.seconds or RUN_SECONDS
        report = self.stack.start(run, source, self.tables[table], *words, seconds=seconds)
        self.charge(report["bytes"], report["seconds"], report["dollars"])
        return report

    def put(self, key: str, lines: Iterable[str]) -> tuple[str, int]:
        """Make an object of the sources' bucket; return its address and size."""
        path = self.folder / key
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write("id,text\n")
            file.writelines(lines)
        self.account.client("s3").upload_file(str(path), self.bucket, key)
        return f"s3://{self.bucket}/{key}", path.stat().st_size

    def upload(self, key: str) -> tuple[str, float]:
        """Upload a row to the inbox; return the id of the run that it starts, and the time."""
        bucket, begun, body = self.stack.inbox, time.monotonic(), f"id,text\n{key},x\n".encode()
        made = self.account.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
        return Upload(bucket, key, made.get("VersionId"), made["ETag"].strip('"')).run, begun

    def count(self, table: str, text: str | None = None) -> int:
        """Count the items of a table, or those with this `text`."""
        request: dict[str, Any] = {"TableName": self.tables[table], "ConsistentRead": True}
        if text is not None:
            names, values = {"#text": "text"}, {":text": {"S": text}}
            request |= {"FilterExpression": "#text = :text", "ExpressionAttributeNames": names}
            request |= {"ExpressionAttributeValues": values}
        pages = self.account.client("dynamodb").get_paginator("scan")
        return sum(page["Count"] for page in pages.paginate(Select="COUNT", **request))


def rows(count: int, first: int = 0, text: str = "x" * (ROW_BYTES - 12)) -> Iterable[str]:
    """Generate rows of about `ROW_BYTES` bytes with different ids."""
    return (f"r{number:09d},{text}\n" for number in range(first, first + count))


def median(values: Iterable[float]) -> float:
    """Return the upper median."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def require_rows(ended: Ended, written: int) -> None:
    """Require that a run has written so many rows, and rejected none. Raises `ProofError`."""
    found = ended.detail
    said = f"run {found['run']}: {ended.status}, {found['rows']}, {found['error']}"
    require((ended.status, found["rows"]["written"]) == ("SUCCEEDED", written), said)
