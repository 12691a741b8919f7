"""List a bucket with boto3 as it was published in "Speeding up boto3 list objects", and by ddbload.

Each way runs as a process of its own, one after the other in the order of the table.
"""

from __future__ import annotations

import hashlib
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.bucket import BUCKET, bucket_keys
from bench.listing import bucket_server, control
from lab import ways
from lab.experiment import Experiment, Setup
from lab.findings import (
    OURS,
    PUBLISHED,
    RIVAL,
    Bar,
    Bars,
    CountsDiffer,
    Findings,
    Lane,
    ServerCost,
    Span,
    Table,
    Timeline,
    require_count,
)

PUBLISHED_KEYS = 7_500
MANY_KEYS = 100_000
"""Keys that some ways list as well in the usual run."""
_SHAPE = "numbered"
_PUBLISHED_SECONDS = 2.54
"""Seconds of the first way, as published."""
_PUBLISHED_REQUEST = 130
"""Milliseconds of a request, as published."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to list a bucket, and what was published of it."""

    name: str
    program: Sequence[str]
    kind: str = RIVAL
    published: float | None = None
    """Seconds for 7,500 keys."""
    parsing: int | None = None
    """Milliseconds to parse a page of 1,000 keys, as published."""


def _boto3(way: str) -> list[str]:
    return ways.published("list_objects", way, BUCKET)


def _lister(requests: int) -> list[str]:
    return [sys.executable, "-m", "lab.lister", str(requests), BUCKET]


DOCUMENTED = Way("documented loop", _boto3("documented"), RIVAL, _PUBLISHED_SECONDS, 170)
EARLY = Way("next page early", _boto3("early"), RIVAL, 1.34, 60)
PARALLEL = Way("ddbload, in parallel", _lister(16), OURS)
COMMAND = Way("ddbload ls", ways.ddbload("ls", f"s3://{BUCKET}"), OURS)
WAYS = (
    DOCUMENTED,
    Way("isoparse", _boto3("isoparse"), RIVAL, 2.03, 60),
    EARLY,
    Way("list_objects_v2", _boto3("paginator")),
    Way("ddbload, page by page", _lister(1), OURS),
    PARALLEL,
    COMMAND,
)


@dataclass(frozen=True, slots=True)
class Listed:
    """One listing."""

    way: Way
    seconds: float
    """From the first request to the last key; of the command, from its start to its end."""
    cpu: float
    spans: Sequence[tuple[str, float, float]]
    counters: dict[str, Any]
    """The server's counters."""
    whole: float
    """Seconds of the whole process."""
    server_cpu: float

    def milliseconds(self, what: str) -> list[float]:
        """Return how long each request, or the parsing of each page, took."""
        return [1000 * (end - begin) for each, begin, end in self.spans if each == what]


class _Runner:
    """Runs listings against one server, and adds up what the server used."""

    def __init__(self, setup: Setup, endpoint: str) -> None:
        self._setup = setup
        self._endpoint = endpoint
        self._server_cpu = self._server_seconds = 0.0

    def server_cost(self) -> ServerCost:
        return ServerCost("bucket's server", self._server_cpu, self._server_seconds)

    def list_all(self, chosen: Sequence[Way], keys: int) -> list[Listed]:
        """List as many keys in each of the ways."""
        due = bucket_keys(_SHAPE, keys)
        settings = {
            "shape": _SHAPE,
            "objects": keys,
            "latency": self._setup.latency,
            "seed": self._setup.seed,
        }
        found = []
        for way in chosen:
            self._setup.say(f"{way.name}, {keys:,} keys")
            found.append(self._setup.measured(way.name, partial(self._list, way, due, settings)))
            self._server_cpu += found[-1].server_cpu
            self._server_seconds += found[-1].whole
        return found

    def _list(self, way: Way, due: Sequence[str], settings: dict[str, Any]) -> Listed:
        control(self._endpoint, "/reset", settings)
        before = control(self._endpoint, "/counters")["cpu_seconds"]
        environment = ways.environment(s3=self._endpoint)
        digest = hashlib.sha256("".join(f"{key}\n" for key in due).encode()).hexdigest()
        if way is COMMAND:
            used, out = ways.measure(way.program, environment)
            listed = out.replace(f"s3://{BUCKET}/", "")
            keys, seen = listed.count("\n"), hashlib.sha256(listed.encode()).hexdigest()
            seconds = whole = used.wall
            cpu, spans = used.ru_utime + used.ru_stime, []
        else:
            measured = ways.run(way.program, environment)
            printed = measured.printed
            keys, seen, spans = printed["keys"], printed["digest"], printed["spans"]
            seconds, cpu, whole = printed["seconds"], printed["cpu"], measured.seconds
        require_count(f"keys of {way.name}", len(due), keys)
        if seen != digest:
            raise CountsDiffer(
                f"{way.name}: other keys than the bucket's, or another order; no figure of this run"
                " counts"
            )
        counters = control(self._endpoint, "/counters")
        server_cpu = counters["cpu_seconds"] - before
        return Listed(way, seconds, cpu, spans, counters, whole, server_cpu)


def run(setup: Setup) -> Findings:
    """List few keys in all ways, and many in all or in some."""
    few = min(setup.size, PUBLISHED_KEYS)
    many, chosen = (
        (setup.size, WAYS) if setup.size > few else (MANY_KEYS, (EARLY, PARALLEL, COMMAND))
    )
    with bucket_server() as endpoint:
        runner = _Runner(setup, endpoint)
        found = {few: runner.list_all(WAYS, few)}
        # The usual run; a smaller one is a test.
        if setup.size >= PUBLISHED_KEYS:
            found[many] = runner.list_all(chosen, many)
        server = runner.server_cost()
    return Findings(
        tables=[*(_times(keys, each) for keys, each in found.items()), _pages(found[few], few)],
        charts=[*(_bars(keys, each) for keys, each in found.items()), _timeline(found[few], few)],
        servers=[server],
        notes=_notes(found[few]),
    )


def _times(keys: int, found: Sequence[Listed]) -> Table:
    is_published = keys == PUBLISHED_KEYS
    rows = []
    for each in found:
        told = each.way.published
        then = ("", "") if told is None else (f"{told:.2f}", _times_faster(told))
        now = (f"{each.seconds:.2f}", _ratio(found[0].seconds, each.seconds))
        rows.append(
            (
                *(each.way.name, *(then if is_published else ()), *now, f"{each.cpu:.2f}"),
                *(f"{each.counters['pages']:,}", f"{each.counters['most_in_flight']}"),
            )
        )
    columns = ("here", "times", "CPU s", "pages", "in flight")
    then_columns = ("published", "times") if is_published else ()
    return Table(f"Seconds to list {keys:,} keys", ("way", *then_columns, *columns), rows)


def _pages(found: Sequence[Listed], keys: int) -> Table:
    rows = []
    for each in found:
        if not each.spans:
            continue
        told = each.way.parsing
        rows.append(
            (
                each.way.name,
                "" if told is None else f"{_PUBLISHED_REQUEST}",
                f"{statistics.median(each.milliseconds('request')):.0f}",
                "" if told is None else f"{told}",
                f"{sum(each.milliseconds('parsing')) / keys * 1000:.1f}",
            )
        )
    columns = ("way", "request published", "here", "parsing published", "here")
    return Table("Milliseconds of a request, and of parsing 1,000 keys", columns, rows)


def _bars(keys: int, found: Sequence[Listed]) -> Bars:
    bars = []
    for each in found:
        told = each.way.published
        if told is not None and keys == PUBLISHED_KEYS:
            note = f"{_times_faster(told)} x"
            bars.append(Bar(f"{each.way.name}, published", told, PUBLISHED, note))
        ratio = _ratio(found[0].seconds, each.seconds)
        bars.append(Bar(each.way.name, each.seconds, each.way.kind, f"{ratio} x"))
    return Bars(f"Listing {keys:,} keys", "seconds", bars)


def _timeline(found: Sequence[Listed], keys: int) -> Timeline:
    lanes = [
        Lane(
            each.way.name,
            [Span(round(begin, 4), round(end, 4), what) for what, begin, end in each.spans],
        )
        for each in found
        if each.spans
    ]
    return Timeline(f"Requests and parsing of {keys:,} keys", lanes)


def _times_faster(published: float) -> str:
    return _ratio(_PUBLISHED_SECONDS, published)


def _ratio(first: float, seconds: float) -> str:
    return f"{first / seconds:.2f}"


_NOTES = (
    (
        "Seconds run from the first request to the last key, without starting Python and making"
        " clients; those of `ddbload ls` are the whole command's. CPU seconds are of the same"
        " stretch. *In flight* is the most requests that waited for the server at once."
    ),
    (
        "The first three ways use ListObjects, as boto3's resources do, whose pages tell the owner"
        " of each object too. botocore's events tell when their requests and parsing took place."
    ),
    (
        "*Next page early* is written after the description's summary: the next page is requested"
        " before the last is parsed. A page of ListObjects begins after the last key of the page"
        " before it, and that key is found in the answer's text without parsing it. So requests"
        " still follow one another; only parsing is hidden. A machine that parses a page faster has"
        " less to gain."
    ),
    (
        "ddbload keeps the times of objects as S3 writes them and parses none, which is part of why"
        " its parsing is short. Page by page, it requests the next page as soon as the beginning of"
        " an answer tells the continuation token."
    ),
)


def _notes(found: Sequence[Listed]) -> list[str]:
    pages = {each.way.name: each.counters["pages"] for each in found}
    divided = (
        f"In parallel, ddbload divides the rest after two pages at guessed keys, and ranges without"
        f" keys cost a request each: {pages[PARALLEL.name]} pages instead of"
        f" {pages[DOCUMENTED.name]} ([decision 0007](decisions/0007-parallel-listing.md))."
    )
    return [*_NOTES, divided]


EXPERIMENT = Experiment(
    name="listing",
    title="Listing objects",
    source="Speeding up boto3 list objects",
    measures=(
        "It measures how long a bucket takes to be listed whole, one page of 1,000 keys after the"
        " other, with parsing made shorter and hidden behind requests; and by ddbload, page by page"
        " and in parallel. Every way must list the same keys in the same order. It does not measure"
        f" S3: the server answers every page after the same latency. With {PUBLISHED_KEYS:,} keys,"
        f" some ways list {MANY_KEYS:,} too; `SIZE={MANY_KEYS}` lists both numbers in all ways."
    ),
    unit="keys",
    size=PUBLISHED_KEYS,
    published_size=PUBLISHED_KEYS,
    latency_ms=130,
    run=run,
)
