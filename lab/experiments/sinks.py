"""Send messages to S3 and SQS sequentially, in threads, and with ddbload's HTTP client."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.bucket import BUCKET
from bench.http_server import control, serving
from bench.message_queue import QUEUE
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
    number,
    require_count,
)
from lab.published.sinks import message

THREADS = 16
"""Threads of the largest pool, and requests in flight of ddbload's client."""
_PUBLISHED_MESSAGES = 1_000
RATIO = 2.15
"""Published ratio of the time of S3 to that of SQS."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Service that receives messages."""

    name: str
    service: str
    module: str
    """Module of the fake server."""
    target: str
    """Name of the bucket or queue."""
    published: tuple[float, float]
    """Published seconds for 1,000 messages: sequentially, and in threads."""
    faster: float
    """Factor by which it answers faster than S3."""


S3 = Sink("S3", "s3", "bench.bucket", BUCKET, (73.57, 4.93), 1.0)
SQS = Sink("SQS", "sqs", "bench.message_queue", QUEUE, (34.14, 2.26), RATIO)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to send the messages."""

    label: str
    kind: str
    options: tuple[str, ...] = ()
    published: int | None = None
    """Index in the sink's published seconds; None if not published."""

    def command(self, sink: Sink, count: int, file: Path) -> list[str]:
        """Build the command that sends the messages. `file` holds one message per line."""
        arguments = (sink.service, sink.target, *self.options)
        if self.kind == OURS:
            return [sys.executable, "-m", "lab.send_messages", str(file), *arguments]
        return harness.published("sinks", str(count), *arguments)


WAYS = (
    Way("boto3, one after the other", BOTO3, (), 0),
    Way("boto3, ThreadPoolExecutor()", BOTO3, ("--parallel",), 1),
    Way(f"boto3, {THREADS} threads", BOTO3, ("--parallel", "--threads", str(THREADS))),
    Way(f"ddbload's client, {THREADS} in flight", OURS, ("--concurrency", str(THREADS))),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """Cost of one way with one sink, measured by its process and by the server."""

    way: Way
    seconds: float
    cpu: float
    most_in_flight: int
    server_cpu: float


def send(setup: Setup, way: Way, sink: Sink, endpoint: str) -> Sent:
    """Send the messages in one way. Raises `CountsDiffer` unless each arrived once."""
    control(endpoint, "/reset", {"latency": setup.latency / sink.faster})
    before = control(endpoint, "/counters")["cpu_seconds"]
    environment = harness.environment(**{sink.service: endpoint})
    file = setup.folder / "messages.jsonl"
    file.write_text("".join(f"{message(i)}\n" for i in range(setup.size)), encoding="utf-8")
    measured = harness.run(way.command(sink, setup.size, file), environment)
    counters = control(endpoint, "/counters")
    check(f"{sink.name}, {way.label}", sink, setup.size, counters)
    cpu = counters["cpu_seconds"] - before
    seconds = float(measured.printed["seconds"])
    return Sent(way, seconds, measured.cpu, counters["most_in_flight"], cpu)


def check(label: str, sink: Sink, count: int, counters: Mapping[str, Any]) -> None:
    """Raise `CountsDiffer` unless a server has each message once, under its key."""
    if sink is S3:
        require_count(label, count, counters["puts"])
        same = counters["stored"] == {f"message_{i}.json": message(i) for i in range(count)}
    else:
        require_count(label, count, len(counters["messages"]))
        same = sorted(counters["messages"]) == sorted(map(message, range(count)))
    if not same:
        raise CountsDiffer(f"{label}: other keys or bodies arrived than were sent")


def _table(setup: Setup, sink: Sink, sent: Sequence[Sent]) -> Table:
    columns = (
        *("way", "published s", "published gain", "here s", "here gain"),
        *("CPU s", "most in flight"),
    )
    rows = []
    for each in sent:
        told = None if each.way.published is None else sink.published[each.way.published]
        rows.append(
            (
                each.way.label,
                f"{told:.2f}" if told else "",
                f"{sink.published[0] / told:.1f} x" if told else "",
                number(each.seconds),
                f"{sent[0].seconds / each.seconds:.1f} x",
                number(each.cpu),
                str(each.most_in_flight),
            )
        )
    title = f"Seconds for {setup.size:,} messages to {sink.name}"
    return Table(f"{title}; published: for {_PUBLISHED_MESSAGES:,}", columns, rows)


def _chart(setup: Setup, sink: Sink, sent: Sequence[Sent]) -> Chart:
    labels = ("published, one after the other", "published, in threads")
    bars = [
        Series(label, PUBLISHED, [_PUBLISHED_MESSAGES / told], f"{sink.published[0] / told:.1f} x")
        for label, told in zip(labels, sink.published, strict=True)
    ]
    for each in sent:
        times = f"{sent[0].seconds / each.seconds:.1f} x"
        bars.append(Series(each.way.label, each.way.kind, [setup.size / each.seconds], times))
    return Chart("bars", f"Messages to {sink.name}", "messages a second", bars)


def run(setup: Setup) -> Findings:
    """Send the messages to both sinks in all ways."""
    tables, charts, notes, firsts = [], [], [], []
    for sink in (S3, SQS):
        with serving(sink.module) as endpoint:
            sent = [
                setup.measured(
                    f"{sink.name}, {way.label}", partial(send, setup, way, sink, endpoint)
                )
                for way in WAYS
            ]
        tables.append(_table(setup, sink, sent))
        charts.append(_chart(setup, sink, sent))
        firsts.append(sent[0].seconds)
        cpu, seconds = sum(each.server_cpu for each in sent), sum(each.seconds for each in sent)
        notes.append(busy(f"fake {sink.name}", cpu, seconds))
    ratio = firsts[0] / firsts[1]
    return Findings(tables, charts, [f"S3 took {ratio:.2f} times as long as SQS here.", *notes])


EXPERIMENT = Experiment(
    name="sinks",
    title="Messages to S3 and SQS, in parallel",
    source="Sometimes you just want parallelism",
    unit="messages",
    size=300,
    published_size=_PUBLISHED_MESSAGES,
    latency_ms=70.0,
    run=run,
)
