"""Runs of the deployed stack, and what must hold of each of them, however it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.e2e.expected import Expected, by_key, expected, read_rejects
from tests.e2e_stack.deployed import SOURCES, Stack, until
from tests.e2e_stack.files import MARKER
from tests.oracle.csv_machine import read_rows

FATES = ("written", "rejected", "superseded", "skipped")


@dataclass(frozen=True)
class Ended:
    """End of an execution."""

    status: str
    output: Any
    error: str | None
    cause: str | None
    events: Sequence[dict[str, Any]]

    def entered(self, state: str) -> int:
        """Count how often a state was entered, without those of a Map's children."""
        return sum(
            event.get("stateEnteredEventDetails", {}).get("name") == state for event in self.events
        )


class Run:
    """A run: its last execution, and its ledger."""

    def __init__(self, stack: Stack, run: str, arn: str | None = None) -> None:
        self.stack = stack
        self.id = run
        self.arn = arn or f"{stack.machine.replace(':stateMachine:', ':execution:')}:{run}"

    @property
    def status(self) -> str:
        described = self.stack.cloud.stepfunctions.describe_execution(executionArn=self.arn)
        return str(described["status"])

    @cached_property
    def ended(self) -> Ended:
        """Wait for its end. Nothing that can be seen of it has row data in it."""
        until(lambda: self.status != "RUNNING", f"{self.arn} does not end")
        client = self.stack.cloud.stepfunctions
        described = client.describe_execution(executionArn=self.arn)
        pages = client.get_paginator("get_execution_history").paginate(executionArn=self.arn)
        events = [event for page in pages for event in page["events"]]
        assert MARKER not in json.dumps([described, events], default=str)
        assert described.get("error") not in ("States.Runtime", "States.DataLimitExceeded")
        output = described.get("output")
        return Ended(
            described["status"],
            None if output is None else json.loads(output),
            described.get("error"),
            described.get("cause"),
            events,
        )

    # The ledger.

    def names(self, folder: str = "") -> list[str]:
        """List the names below a folder of the run's ledger."""
        root = f"runs/{self.id}/"
        pages = self.stack.cloud.s3.get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.stack.work, Prefix=root + folder)
        keys = [each["Key"] for page in found for each in page.get("Contents", ())]
        return [key.removeprefix(root) for key in keys]

    def read(self, name: str) -> bytes:
        """An object of the ledger."""
        key = f"runs/{self.id}/{name}"
        data: bytes = self.stack.cloud.s3.get_object(Bucket=self.stack.work, Key=key)["Body"].read()
        return data

    @property
    def manifest(self) -> list[dict[str, Any]]:
        """The chunks, in order."""
        chunks = [each for group in self.json("manifest.json") for each in group["chunks"]]
        return sorted(chunks, key=lambda chunk: int(chunk["chunk"]))

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.manifest)

    def json(self, name: str) -> Any:
        """The same, decoded."""
        return json.loads(self.read(name))

    def reaches(self, folder: str) -> None:
        """Wait until the ledger has something there: `run.json`, `chunks/`."""
        until(lambda: self.names(folder), f"{self.id} has no {folder}")

    def segments(self) -> list[dict[str, Any]]:
        """All segments, in the order of the source."""
        found = [self.json(name) for name in self.names("chunks/")]
        return sorted(found, key=lambda each: each["start"]["byte"])

    def rejects(self, segments: Sequence[dict[str, Any]] | None = None) -> list[str]:
        """All reject lines, in the order of the source."""
        found = self.segments() if segments is None else segments
        names = [each["rejects"] for each in found if each["rejects"]]
        return [line for name in names for line in self.read(name).decode().splitlines()]


@dataclass(frozen=True)
class Load:
    """Import of a file into a new table."""

    run: Run
    table: str
    wanted: Expected
    data: bytes

    def succeeds(self) -> Ended:
        """The execution succeeds, and the table is what the oracle makes of the file."""
        ended = self.run.ended
        assert (ended.status, ended.error, ended.cause) == ("SUCCEEDED", None, None)
        self.is_loaded()
        report = self.run.json("report.json")
        outcome = (
            "run",
            "status",
            "rows",
            "chunks",
            "chunks_done",
            "rejects",
            "error",
            "uncertain",
        )
        assert ended.output == {name: report[name] for name in outcome}
        return ended

    def is_loaded(self) -> None:
        """Table, rejects, report and ledger are those of the whole file."""
        self.table_is_right()
        wanted, segments = self.wanted, self.run.segments()
        assert read_rejects(self.run.rejects(segments)) == wanted.rejects
        report = self.run.json("report.json")
        assert (report["run"], report["status"], report["error"]) == (
            *(self.run.id, "SUCCEEDED_WITH_REJECTS" if wanted.rejects else "SUCCEEDED", None),
        )
        rows = report["rows"]
        assert (rows["read"], rows["rejected"]) == (wanted.rows, len(wanted.rejects))
        assert rows["written"] + rows["superseded"] == wanted.rows - len(wanted.rejects)
        assert report["bytes"] == report["size"] == len(self.data)
        assert report["chunks"] == report["chunks_done"] == self.run.chunks
        assert_conserved(report, segments)
        self._tiles(segments)

    def fails(self, error: str) -> Ended:
        """The execution fails by this name, and says of no row what is not so."""
        ended = self.run.ended
        assert (ended.status, ended.error) == ("FAILED", error), ended.cause
        assert ended.cause
        report = self.run.json("report.json")
        assert (report["status"], report["error"]["name"]) == ("FAILED", error)
        assert ended.cause == report["error"]["message"]
        assert_conserved(report, self.run.segments())
        found = by_key(self.run.stack.cloud.items(self.table), "id")
        assert found.items() <= self.wanted.items.items()
        assert report["rows"]["written"] <= len(found)
        return ended

    def table_is_right(self) -> None:
        """Cell by cell."""
        found = self.run.stack.cloud.items(self.table)
        assert by_key(found, "id") == self.wanted.items
        assert len(found) == len(self.wanted.items)

    def _tiles(self, segments: Sequence[dict[str, Any]]) -> None:
        """Chunks follow each other to the end, and segments follow each other within them."""
        chunks = self.run.manifest
        ends = [chunk["end"] for chunk in chunks]
        assert [chunk["start"] for chunk in chunks[1:]] == ends[:-1]
        assert ends[-1:] == [len(self.data)][: len(ends)]
        assert [each["start"]["byte"] for each in segments[1:]] == [
            each["end"]["byte"] for each in segments[:-1]
        ]
        assert [each["end"]["byte"] for each in segments if each["proven"]] == ends


def load(stack: Stack, data: bytes, *, run: str, inbox: bool = False, **options: object) -> Load:
    """Put a file of strings, whose key is `id`, and start its run."""
    cloud = stack.cloud
    bucket = stack.inbox if inbox else SOURCES
    table = cloud.table()
    rows = read_rows(data)
    columns = rows[0].fields if rows else []
    payload = {
        "run": {"id": run},
        "source": {"bucket": bucket, "key": stack.put(data, bucket=bucket)},
        "target": {"table": table},
        "options": options,
    }
    arn = stack.start(payload, run)
    return Load(Run(stack, run, arn), table, expected(data, rows[1:], columns), data)


def assert_conserved(report: dict[str, Any], segments: Sequence[dict[str, Any]]) -> None:
    """The conservation law, of each segment and of their sum, which is what was reported."""
    counts = [each["rows"] for each in segments]
    for rows in [*counts, report["rows"]]:
        assert rows["read"] == sum(rows[fate] for fate in FATES)
    total = {fate: sum(rows[fate] for rows in counts) for fate in ("read", *FATES)}
    assert report["rows"] == total
