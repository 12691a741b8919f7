"""Runs whose ledgers are golden files: their sources and tables, and a place to run them in.

Nothing here imports ddbload: a run is the command line, its ledger's files, and the table's items.
The sources are objects in S3, because their pins (key, size, ETag) are the same on every machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.cli.console import PROGRAM, SECONDS, Console, Ended
from tests.faults.server import FaultServer

LEDGERS = Path(__file__).with_name("ledgers")
BUCKET, TABLE, LEDGER = "golden-runs", "books", "ledger"
WRITES = {"BatchWriteItem", "PutItem"}

Item = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """An import of objects in S3. Its name is the run's id, and the prefix of its objects."""

    name: str
    objects: Mapping[str, bytes]
    arguments: Sequence[str] = ()
    present: Sequence[Item] = ()
    """Items in the table before the run."""
    stop_after: int | None = None
    """The write request at which the signal is sent, counted from 1; None: never."""
    stop_by: signal.Signals = signal.SIGINT

    @property
    def source(self) -> str:
        """The object's URI, or of several the prefix."""
        one = next(iter(self.objects)) if len(self.objects) == 1 else ""
        return f"s3://{BUCKET}/{self.name}/{one}"

    @property
    def command(self) -> list[str]:
        """The arguments of ddbload."""
        return [
            *("import", self.source, TABLE, "--run-id", self.name, "--ledger", LEDGER),
            *("--processes", "1", "--engine", "sync", "--json", *self.arguments),
        ]


@dataclass(frozen=True)
class Golden:
    """A run as an earlier version left it."""

    ledger: Mapping[str, str]
    """Content by path below the ledger's folder."""
    keys: Sequence[str]
    """Keys of the table's items when the run ended, whether it was done or not."""
    report: Mapping[str, Any]
    """The object of `ddbload report --json`, without times."""
    exit_code: int
    """The exit status of that command."""
    rejects: Sequence[str]
    """The lines of `ddbload rejects`."""
    unbroken: Sequence[Item]
    """The table's items after the same import without a stop."""

    @property
    def items(self) -> list[Item]:
        """The table's items when the run ended."""
        return [item for item in self.unbroken if item["id"]["S"] in self.keys]

    @property
    def unbroken_keys(self) -> set[str]:
        """The partition keys of the table without a stop."""
        return {item["id"]["S"] for item in self.unbroken}

    def chain_ends(self) -> dict[int, list[tuple[int, int, bool]]]:
        """Start, end and `proven` of each segment, by chunk and in order."""
        found: dict[int, list[tuple[int, int, bool]]] = {}
        for path, text in sorted(self.ledger.items()):
            if "/chunks/" in path:
                value = json.loads(text)
                ends = (value["start"]["byte"], value["end"]["byte"], value["proven"])
                found.setdefault(value["chunk"], []).append(ends)
        return {chunk: sorted(ends) for chunk, ends in found.items()}


def load(version: int, name: str) -> Golden:
    """Read a golden file."""
    return Golden(**json.loads(_path(version, name).read_text("utf-8")))


def save(version: int, name: str, golden: Golden) -> None:
    """Write a golden file, with one line for each file of the ledger and each item.

    Raises FileExistsError: no later version can write the ledgers of an earlier one.
    """
    sections = []
    for key, value in vars(golden).items():
        pairs = value.items() if isinstance(value, Mapping) else None
        if pairs is not None:
            lines = [f"  {json.dumps(each)}: {json.dumps(of)}" for each, of in pairs]
            shown = "{\n" + ",\n".join(lines) + "\n }"
        elif isinstance(value, list) and value and key != "keys":
            shown = "[\n" + ",\n".join(f"  {json.dumps(each)}" for each in value) + "\n ]"
        else:
            shown = json.dumps(value)
        sections.append(f" {json.dumps(key)}: {shown}")
    path = _path(version, name)
    path.parent.mkdir(exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(sections) + "\n}\n")


def _path(version: int, name: str) -> Path:
    return LEDGERS / f"version_{version}" / f"{name}.json"


@dataclass
class Place(AbstractContextManager["Place"]):
    """A folder with a ledger, S3, and a DynamoDB with the table `books` and nothing else.

    The DynamoDB is the in-memory one, whose tables have the same ids in each process.
    """

    console: Console
    s3: Any
    server: FaultServer = field(default_factory=FaultServer)

    def __enter__(self) -> Self:
        self.server.__enter__()
        self.server.dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.server.__exit__(*error)

    @property
    def items(self) -> list[Item]:
        """The table's items."""
        return self.server.dynamodb.items(TABLE)

    def put_items(self, items: Sequence[Item]) -> None:
        """Put items into the table."""
        for item in items:
            self.server.dynamodb.put_item(TableName=TABLE, Item=item)

    def put_objects(self, run: Run) -> None:
        """Put the run's objects into the bucket."""
        self.s3.create_bucket(Bucket=BUCKET)
        for key, data in run.objects.items():
            self.s3.put_object(Bucket=BUCKET, Key=f"{run.name}/{key}", Body=data)

    def ddbload(self, *arguments: str) -> Ended:
        """Run ddbload to its end."""
        return self.console.ddbload(*arguments, AWS_ENDPOINT_URL_DYNAMODB=self.server.endpoint)

    def start_and_stop(self, run: Run) -> int:
        """Run the import, and send its signal at a write request; the exit status."""
        env = self.console.environment({"AWS_ENDPOINT_URL_DYNAMODB": self.server.endpoint})
        process = subprocess.Popen(
            [str(PROGRAM), *run.command],
            cwd=self.console.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        requests = 0

        def stop_at_last(operation: str, _params: dict[str, Any]) -> None:
            nonlocal requests
            requests += operation in WRITES
            # Once: a second signal ends the command without a last segment.
            if operation in WRITES and requests == run.stop_after:
                os.kill(process.pid, run.stop_by)

        self.server.faults.decide = stop_at_last
        try:
            return process.wait(SECONDS)
        finally:
            process.kill()
            process.wait()
            self.server.faults.decide = None

    def write_ledger(self, files: Mapping[str, str]) -> None:
        """Put an earlier version's files where the ledger is."""
        for name, text in files.items():
            path = self.console.path(LEDGER) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())

    def read_ledger(self) -> dict[str, str]:
        """Read all files of the ledger."""
        root = self.console.path(LEDGER)
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        return {path.relative_to(root).as_posix(): path.read_bytes().decode() for path in paths}

    def report(self, name: str) -> tuple[dict[str, Any], int]:
        """The object that `ddbload report` prints, without times, and its exit status."""
        ended = self.ddbload("report", name, "--ledger", LEDGER, "--json")
        found = json.loads(ended.out)
        for time in ("seconds", "rows_per_second"):
            del found[time]
        for later in ("dollars", "write_price"):
            # Later versions print them, and null for a run of an earlier one.
            if found.get(later, ...) is None:
                del found[later]
        if found["rejects"] is not None:
            found["rejects"] = Path(found["rejects"]).relative_to(self.console.folder).as_posix()
        return found, ended.code

    def rejects(self, name: str) -> list[str]:
        """The lines that `ddbload rejects` prints."""
        ended = self.ddbload("rejects", name, "--ledger", LEDGER)
        assert ended.code == 0, ended.err
        return ended.out.splitlines()


def _csv(numbers: range) -> bytes:
    """Rows with a quoted line break each seventh time, and with characters of several bytes."""
    lines = (
        f'r{n:03},{n},"Bücher{chr(10)}und mehr {n}"\n' if n % 7 == 0 else f"r{n:03},{n},title {n}\n"
        for n in numbers
    )
    return ("id,n,title\n" + "".join(lines)).encode()


def _item(key: str, number: str, title: str) -> Item:
    return {"id": {"S": key}, "n": {"N": number}, "title": {"S": title}}


FINISHED = Run("finished", {"a.csv": _csv(range(60))}, ("--types", "n=N", "--chunk-bytes", "400"))

HALF_DONE = Run(
    "half-done",
    {"a.csv": _csv(range(200))},
    ("--types", "n=N", "--chunk-bytes", "1500"),
    stop_after=5,
)

WITH_REJECTS = Run(
    "with-rejects",
    {
        "a.csv": b"id,n,title\n"
        b"r1,1,one\n"
        b"r2,two,not a number\n"
        b"r3,3\n"
        b"r4,4,four,more\n"
        b",5,no key\n"
        b"r6,6,bad \xff encoding\n"
        b'r7,7,"bad" quote\n'
        b'r8,8,"a line\nbreak"\n'
        b"r9,1e999,out of range\n"
        b"r10,10,ten\n"
    },
    ("--types", "n=N", "--chunk-bytes", "40"),
)

PRESENT = (
    _item("r001", "1", "title 1"),
    _item("r002", "2", "another title"),
    _item("r080", "80", "title 80"),
    _item("r081", "81", "another title"),
)
"""For `insert`, near the start and the end of the source: identical items, and others."""
INSERT = ("--types", "n=N", "--mode", "insert", "--concurrency", "1")

INSERT_KILLED = Run(
    "insert-killed",
    {"a.csv": _csv(range(90))},
    (*INSERT, "--chunk-bytes", "600"),
    PRESENT,
    stop_after=50,
    stop_by=signal.SIGKILL,
)

INSERT_INTERRUPTED = Run(
    "insert-interrupted",
    {"a.csv": _csv(range(90))},
    (*INSERT, "--chunk-bytes", "600"),
    PRESENT,
    stop_after=55,
)

SEVERAL = Run(
    "several",
    {
        "1.csv": _csv(range(50)),
        "2.csv": _csv(range(50, 55)),
        "3.csv": b"id,n,title\nr055,x,not a number\nr056,56,title 56\n",
        "4.csv.gz": (LEDGERS / "several-4.csv.gz").read_bytes(),
        "5.csv": _csv(range(120, 200)),
    },
    (*INSERT, "--chunk-bytes", "1000"),
    stop_after=95,
)

RUNS = (FINISHED, HALF_DONE, WITH_REJECTS, INSERT_KILLED, INSERT_INTERRUPTED, SEVERAL)
