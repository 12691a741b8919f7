"""List a bucket with boto3 as published in "Speeding up boto3 list objects", and by ddbload."""

from __future__ import annotations

import hashlib
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.bucket import BUCKET, bucket_keys
from bench.http_server import control, serving
from lab import harness
from lab.harness import (
    BOTO3,
    OURS,
    PUBLISHED,
    Chart,
    CountsDiffer,
    Experiment,
    Findings,
    Series,
    Setup,
    Table,
    busy,
    require_count,
)

PUBLISHED_KEYS, MANY_KEYS = 7_500, 100_000
"""Number of keys in the published runs, and a larger number for some ways."""
RUNS = 10
"""Number of runs that the published figures are averages of; `make lab` uses two."""
_SHAPE = "numbered"
_PUBLISHED_SECONDS = 2.54
"""Published seconds of the first way."""
_PUBLISHED_REQUEST = 130
"""Published milliseconds per request."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to list a bucket, with its published figures."""

    name: str
    program: Sequence[str]
    kind: str = BOTO3
    published: float | None = None
    """Published seconds for 7,500 keys."""
    parsing: int | None = None
    """Published milliseconds to parse a page of 1,000 keys."""


def _boto3(way: str) -> list[str]:
    return harness.published("list_objects", way, BUCKET)


def _lister(requests: int) -> list[str]:
    return [sys.executable, "-m", "lab.lister", str(requests), BUCKET]


EARLY = Way("next page early", _boto3("early"), BOTO3, 1.34, 60)
PARALLEL = Way("ddbload, in parallel", _lister(16), OURS)
COMMAND = Way("ddbload ls", harness.ddbload("ls", f"s3://{BUCKET}"), OURS)
WAYS = (
    Way("documented loop", _boto3("documented"), BOTO3, _PUBLISHED_SECONDS, 170),
    Way("isoparse", _boto3("isoparse"), BOTO3, 2.03, 60),
    Way("timestamps as None", _boto3("none")),
    EARLY,
    Way("list_objects_v2", _boto3("paginator")),
    Way("ddbload, page by page", _lister(1), OURS),
    PARALLEL,
    COMMAND,
)


@dataclass(frozen=True, slots=True)
class Listed:
    """Listings of one way: average cost, with requests and parsing of the last listing."""

    way: Way
    seconds: float
    """From the first request to the last key; for a command, from its start to its end."""
    cpu: float
    spans: Sequence[tuple[float, float, str]]
    counters: dict[str, Any]

    def milliseconds(self, activity: str) -> list[float]:
        """Return the duration of each request, or of parsing each page."""
        return [1000 * (end - begin) for begin, end, each in self.spans if each == activity]


def _list(way: Way, due: Sequence[str], settings: dict[str, Any], endpoint: str) -> Listed:
    """List all keys once.

    Raises `CountsDiffer` if keys are missing, unexpected, or out of order.
    """
    control(endpoint, "/reset", settings)
    environment = harness.environment(s3=endpoint)
    digest = hashlib.sha256("".join(f"{key}\n" for key in due).encode()).hexdigest()
    if way is COMMAND:
        used, out = harness.run_text(way.program, environment)
        listed = out.replace(f"s3://{BUCKET}/", "")
        keys, seen = listed.count("\n"), hashlib.sha256(listed.encode()).hexdigest()
        seconds, cpu, spans = used.wall, used.cpu, []
    else:
        printed = harness.run(way.program, environment).printed
        keys, seen, spans = printed["keys"], printed["digest"], printed["spans"]
        seconds, cpu = printed["seconds"], printed["cpu"]
    require_count(f"keys of {way.name}", len(due), keys)
    if seen != digest:
        raise CountsDiffer(f"{way.name}: other keys than the bucket's, or another order")
    ordered = [(begin, end, activity) for activity, begin, end in spans]
    return Listed(way, seconds, cpu, ordered, control(endpoint, "/counters"))


def _list_all(
    chosen: Sequence[Way], keys: int, runs: int, setup: Setup, endpoint: str
) -> list[Listed]:
    """List `keys` keys in each of the ways, which take turns."""
    due = bucket_keys(_SHAPE, keys)
    settings = {
        "shape": _SHAPE,
        "objects": keys,
        "latency": setup.latency,
        "seed": setup.seed,
    }
    found: dict[str, list[Listed]] = {way.name: [] for way in chosen}
    for turn in range(runs):
        for way in chosen:
            once = partial(_list, way, due, settings, endpoint)
            found[way.name].append(setup.measured(f"{way.name}, {keys:,} keys, {turn + 1}", once))
    return [
        Listed(
            way,
            statistics.fmean(each.seconds for each in listed),
            statistics.fmean(each.cpu for each in listed),
            listed[-1].spans,
            listed[-1].counters,
        )
        for way, listed in zip(chosen, found.values(), strict=True)
    ]


def run(setup: Setup) -> Findings:
    """List few keys in all ways, and many keys in all or some."""
    few = min(setup.size, PUBLISHED_KEYS)
    runs = RUNS if setup.needs_idle_machine else 2
    with serving("bench.bucket") as endpoint:
        found = {few: _list_all(WAYS, few, runs, setup, endpoint)}
        if setup.size > few:
            found[setup.size] = _list_all(WAYS, setup.size, 1, setup, endpoint)
        elif setup.size == PUBLISHED_KEYS:
            found[MANY_KEYS] = _list_all((EARLY, PARALLEL, COMMAND), MANY_KEYS, 1, setup, endpoint)
        cpu = control(endpoint, "/counters")["cpu_seconds"]
    whole = runs * sum(each.seconds for each in found[few])
    lanes = [Series(each.way.name, "", each.spans) for each in found[few] if each.spans]
    title = f"Requests and parsing of {few:,} keys"
    return Findings(
        tables=[
            *(_times(keys, each, runs if keys == few else 1) for keys, each in found.items()),
            _pages(found[few], few),
        ],
        charts=[
            *(_bars(keys, each) for keys, each in found.items()),
            Chart("timeline", title, "seconds from the first request", lanes),
        ],
        notes=[busy("bucket's server", cpu, max(cpu, whole))],
    )


def _times(keys: int, found: Sequence[Listed], runs: int) -> Table:
    rows = []
    for each in found:
        told = each.way.published if keys == PUBLISHED_KEYS else None
        rows.append(
            (
                each.way.name,
                *((f"{told:.2f}", f"{_PUBLISHED_SECONDS / told:.2f}") if told else ("", "")),
                *(f"{each.seconds:.2f}", f"{found[0].seconds / each.seconds:.2f}"),
                *(f"{each.cpu:.2f}", f"{each.counters['pages']:,}"),
                f"{each.counters['most_in_flight']}",
            )
        )
    columns = ("way", "published", "times", "here", "times", "CPU s", "pages", "in flight")
    average = f", average of {runs} runs" if runs > 1 else ", one run"
    title = f"Seconds to list {keys:,} keys{average}"
    return Table(title, columns, rows, detail=keys > PUBLISHED_KEYS)


def _pages(found: Sequence[Listed], keys: int) -> Table:
    rows = [
        (
            each.way.name,
            f"{_PUBLISHED_REQUEST}" if each.way.parsing else "",
            f"{statistics.median(each.milliseconds('request')):.0f}",
            f"{each.way.parsing or ''}",
            f"{sum(each.milliseconds('parsing')) / keys * 1000:.1f}",
        )
        for each in found
        if each.spans
    ]
    columns = ("way", "request published", "here", "parsing published", "here")
    title = "Milliseconds of a request, and of parsing 1,000 keys"
    return Table(title, columns, rows, detail=True)


def _bars(keys: int, found: Sequence[Listed]) -> Chart:
    bars = []
    for each in found:
        told = each.way.published
        if told and keys == PUBLISHED_KEYS:
            note = f"{_PUBLISHED_SECONDS / told:.2f} x"
            bars.append(Series(f"{each.way.name}, published", PUBLISHED, [told], note))
        ratio = f"{found[0].seconds / each.seconds:.2f} x"
        bars.append(Series(each.way.name, each.way.kind, [each.seconds], ratio))
    return Chart("bars", f"Listing {keys:,} keys", "seconds", bars)


EXPERIMENT = Experiment(
    name="listing",
    title="Listing objects",
    source="Speeding up boto3 list objects",
    unit="keys",
    size=PUBLISHED_KEYS,
    published_size=PUBLISHED_KEYS,
    latency_ms=130,
    run=run,
)
