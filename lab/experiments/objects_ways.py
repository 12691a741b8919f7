"""Ways to read many small objects, run against one server and checked."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.bucket import BUCKET, bucket_keys, object_body
from bench.listing import control
from lab import ways
from lab.experiment import Setup
from lab.findings import CountsDiffer, require_count

BYTES = 1024
SHAPE = "hashed"
THREADS, TASKS, DDBLOAD = "threads", "tasks", "ddbload"
_LABELS = {
    THREADS: "{:,} threads",
    TASKS: "asyncio, pool of {:,}",
    DDBLOAD: "ddbload, {:,} at once",
}


@dataclass(frozen=True, slots=True)
class Way:
    """One way to read objects, with its number of threads, of connections or of reads."""

    kind: str
    concurrency: int

    @property
    def label(self) -> str:
        """Name in tables and charts."""
        return _LABELS[self.kind].format(self.concurrency)

    def command(self, inputs: Inputs) -> list[str]:
        """Build the command that reads all objects."""
        if self.kind == DDBLOAD:
            begin, file = [sys.executable, "-m", "lab.reader"], inputs.objects
        else:
            begin, file = ways.published(f"objects.{self.kind}"), inputs.keys
        return [*begin, BUCKET, str(file), str(self.concurrency)]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Objects that are due: files that name them for the ways, and the checksum of them all."""

    count: int
    keys: Path
    objects: Path
    digest: str


@dataclass(frozen=True, slots=True)
class Result:
    """One run of a way."""

    way: Way
    due: int
    read: int
    sent: int
    """Objects that the server sent."""
    skewed: int
    """Requests that the server refused because of their date."""
    failure: str
    """First failure in the way's own words; empty if there was none."""
    seconds: float
    cpu: float
    most_in_flight: int
    printed: Mapping[str, Any]


class Runner:
    """Runs of ways against one server, and what the server used for them."""

    def __init__(self, endpoint: str, setup: Setup) -> None:
        self._endpoint, self._setup = endpoint, setup
        self._inputs: dict[int, Inputs] = {}
        self._found: dict[tuple[Way, int], Result] = {}
        self._environment = ways.environment(s3=endpoint)
        self.server_cpu = self.served_seconds = 0.0

    def read(self, way: Way, count: int) -> Result:
        """Read all objects in one way, once. Raises `CountsDiffer` unless every byte was read."""
        found = self._found.get((way, count))
        if found is None:
            found = self.read_once(way, count, latency=self._setup.latency)
            self._found[way, count] = found
            if found.failure:
                raise CountsDiffer(f"{way.label}: {found.failure}")
            require_count(way.label, count, found.read)
            require_sent_once(found)
        return found

    def read_once(self, way: Way, count: int, **settings: float) -> Result:
        """Read objects from a server with more settings, by which some may be refused."""
        inputs = self._inputs_of(count)
        self._setup.say(f"{way.label}: {count:,} objects")
        due = {"shape": SHAPE, "objects": count, "bytes": BYTES, "distinct": True}

        def run_once() -> tuple[Mapping[str, Any], Mapping[str, Any], float]:
            control(self._endpoint, "/reset", {**due, "seed": self._setup.seed, **settings})
            before = control(self._endpoint, "/counters")["cpu_seconds"]
            printed = ways.run(way.command(inputs), self._environment).printed
            counters = control(self._endpoint, "/counters")
            return printed, counters, counters["cpu_seconds"] - before

        printed, counters, server_cpu = self._setup.measured(way.label, run_once)
        self.server_cpu += server_cpu
        self.served_seconds += printed["seconds"]
        if printed["objects"] == count and printed["digest"] != inputs.digest:
            raise CountsDiffer(f"{way.label}: {count:,} objects were read, with other bytes")
        return Result(
            way,
            due=count,
            read=printed["objects"],
            sent=counters["objects"],
            skewed=counters["skewed"],
            failure=printed["failure"],
            seconds=printed["seconds"],
            cpu=printed["cpu"],
            most_in_flight=counters["most_in_flight"],
            printed=printed,
        )

    def costs(self, clients: int) -> Mapping[str, Any]:
        """Measure what a thread and a client cost; makes so many clients."""
        self._setup.say("threads and clients alone")
        command = ways.published("objects.costs", str(clients))
        once = partial(ways.run, command, self._environment)
        return self._setup.measured("threads and clients alone", once).printed

    def _inputs_of(self, count: int) -> Inputs:
        if count not in self._inputs:
            folder = self._setup.folder
            names = folder / f"keys-{count}", folder / f"objects-{count}"
            self._inputs[count] = _write_inputs(count, *names)
        return self._inputs[count]


def require_sent_once(result: Result) -> None:
    """Raise `CountsDiffer` if the server sent more objects than the way read, or fewer."""
    require_count(f"{result.way.label}, objects that were sent", result.read, result.sent)


def _write_inputs(count: int, keys: Path, objects: Path) -> Inputs:
    digest = hashlib.sha256()
    listed = bucket_keys(SHAPE, count)
    with objects.open("w", encoding="utf-8") as file:
        for key in listed:
            body = object_body(key, BYTES)
            digest.update(key.encode() + b"\0" + body)
            etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
            each = {"key": key, "etag": f'"{etag}"', "size": len(body)}
            file.write(json.dumps(each) + "\n")
    keys.write_text("".join(f"{key}\n" for key in listed), encoding="utf-8")
    return Inputs(count, keys, objects, digest.hexdigest())
