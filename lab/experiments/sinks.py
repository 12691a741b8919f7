"""Send messages to S3 and SQS one after the other, in threads, and by `ddbload import`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.bucket import BUCKET
from bench.listing import bucket_server, control
from bench.message_checksum import MessageChecksum
from bench.message_queue import QUEUE
from bench.put_request import bucket_checksum, object_digest
from lab import ways
from lab.draw import number
from lab.experiment import Experiment, Setup
from lab.findings import (
    OURS,
    PUBLISHED,
    RIVAL,
    Bar,
    Bars,
    CountsDiffer,
    Findings,
    ServerCost,
    Table,
    require_count,
)

THREADS = 16
"""Threads of the pool, and requests of ddbload in flight."""
PREFIX = "messages/"
_PUBLISHED_MESSAGES = 1_000
_NAMES = ("Ada", "Grace", "Zoë", "José", "Łukasz", "Siân", "李雷", "Nguyễn")
_GOODS = ("lamp", "desk", "chair", "shelf", "clock", "rug")


@dataclass(frozen=True, slots=True)
class Message:
    """One message: the key of its object, and its text, which is one line of the file."""

    key: str
    text: str


def make_messages(count: int, seed: int) -> list[Message]:
    """Generate orders as compact JSON."""
    generator = random.Random(seed)
    messages = []
    for at in range(count):
        order = {
            "id": f"order-{at:07d}-{generator.getrandbits(32):08x}",
            "customer": generator.choice(_NAMES),
            "placed": f"2026-{generator.randint(1, 12):02d}-{generator.randint(1, 28):02d}",
            "cents": generator.randint(100, 99_999),
            "gift": generator.random() < 0.1,
            "goods": generator.choices(_GOODS, k=generator.randint(1, 4)),
        }
        text = json.dumps(order, ensure_ascii=False, separators=(",", ":"))
        messages.append(Message(f"{PREFIX}{order['id']}.json", text))
    return messages


class Sink:
    """A service that takes messages, and what it must have when all of them arrived once."""

    name: str
    service: str
    module: str
    """Module of the server."""
    target: str
    """Name of the bucket or queue."""
    published: tuple[float, float]
    """Published seconds for 1,000 messages: one after the other, and in threads."""
    arrived: str
    """Counter of the messages that arrived."""
    import_to: tuple[str, ...]
    """Target and options of `ddbload import`."""

    def checksum(self, messages: Sequence[Message]) -> str:
        """Return the checksum of the messages."""
        raise NotImplementedError

    def requests(self, counters: Mapping[str, Any]) -> int:
        """Return the number of requests that carried messages, or asked what became of them."""
        raise NotImplementedError

    def repeated(self, counters: Mapping[str, Any]) -> int:
        """Return how many messages arrived more than once."""
        raise NotImplementedError


class S3(Sink):
    """S3: each message becomes an object."""

    name, service, module, target = "S3", "s3", "bench.bucket", BUCKET
    published = (73.57, 4.93)
    arrived = "stored"
    import_to = (f"s3://{BUCKET}/{PREFIX}", "--object-key", "{id}.json")

    def checksum(self, messages: Sequence[Message]) -> str:
        return bucket_checksum(
            sum(object_digest(each.key, each.text.encode()) for each in messages)
        )

    def requests(self, counters: Mapping[str, Any]) -> int:
        return int(counters["puts"] + counters["heads"])

    def repeated(self, counters: Mapping[str, Any]) -> int:
        return int(counters["overwritten"])


class SQS(Sink):
    """SQS: each message becomes a message of a standard queue."""

    name, service, module, target = "SQS", "sqs", "bench.message_queue", QUEUE
    published = (34.14, 2.26)
    arrived = "messages"
    import_to = (f"sqs:{QUEUE}",)

    def checksum(self, messages: Sequence[Message]) -> str:
        sent = MessageChecksum()
        for each in messages:
            sent.add(each.text.encode())
        return sent.counters()["checksum"]

    def requests(self, counters: Mapping[str, Any]) -> int:
        return int(counters["sends"])

    def repeated(self, counters: Mapping[str, Any]) -> int:
        return int(counters["duplicates"])


@dataclass(frozen=True, slots=True)
class Way:
    """One way to send the messages."""

    label: str
    kind: str
    published: int | None
    """Index of the published seconds."""
    threads: int | None = None

    def command(self, sink: Sink, file: Path, folder: Path) -> list[str]:
        """Build the command that sends a file's messages."""
        if self.kind == OURS:
            flags = ("--concurrency", str(THREADS), "--processes", "1", "--json")
            ledger = ("--ledger", str(folder / f"ledger-{sink.service}"))
            return ways.ddbload("import", str(file), *sink.import_to, *flags, *ledger)
        threads = () if self.threads is None else ("--threads", str(self.threads))
        return ways.published("sinks", str(file), sink.service, sink.target, *threads)


WAYS = (
    Way("boto3, one after the other", RIVAL, 0),
    Way(f"boto3, {THREADS} threads", RIVAL, 1, THREADS),
    Way("ddbload import", OURS, None),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """Cost of one way to one sink, as its process and the server measured it."""

    seconds: float
    cpu: float
    requests: int
    most_in_flight: int
    server_cpu: float


def read_counters(endpoint: str) -> dict[str, Any]:
    """Return a server's counters."""
    counters: dict[str, Any] = control(endpoint, "/counters")
    return counters


@contextmanager
def serve(sink: Sink) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a sink's server; yield its address, and the environment of its clients."""
    with bucket_server(sink.module) as endpoint:
        yield endpoint, ways.environment(**{sink.service: endpoint})


def send(setup: Setup, way: Way, sink: Sink, endpoint: str, environment: Mapping[str, str]) -> Sent:
    """Send the messages in one way. Raises `CountsDiffer` unless each of them arrived once."""
    setup.say(f"{sink.name}: {way.label}")
    messages = make_messages(setup.size, setup.seed)
    file = setup.folder / "messages.jsonl"
    file.write_text("".join(f"{each.text}\n" for each in messages), encoding="utf-8")
    control(endpoint, "/reset", {"latency": setup.latency})
    before = read_counters(endpoint)["cpu_seconds"]
    measured = ways.run(way.command(sink, file, setup.folder), environment)
    counters = read_counters(endpoint)
    check(f"{sink.name}, {way.label}", sink, messages, counters)
    return Sent(
        seconds=float(measured.printed["seconds"]),
        cpu=measured.cpu,
        requests=sink.requests(counters),
        most_in_flight=counters["most_in_flight"],
        server_cpu=counters["cpu_seconds"] - before,
    )


def check(what: str, sink: Sink, messages: Sequence[Message], counters: Mapping[str, Any]) -> None:
    """Raise `CountsDiffer` unless a server has each message once, as it was sent."""
    require_count(what, len(messages), counters[sink.arrived])
    if repeated := sink.repeated(counters):
        raise CountsDiffer(f"{what}: {repeated:,} arrived more than once")
    if counters["checksum"] != sink.checksum(messages):
        raise CountsDiffer(f"{what}: all arrived, but not with the keys and bodies that were sent")


def _table(setup: Setup, sink: Sink, sent: Sequence[Sent]) -> Table:
    columns = (
        *("way", "published s", "published gain", "here s", "here gain"),
        *("CPU s", "requests", "most in flight"),
    )
    rows = []
    for way, each in zip(WAYS, sent, strict=True):
        told = None if way.published is None else sink.published[way.published]
        rows.append(
            (
                way.label,
                "" if told is None else f"{told:.2f}",
                "" if told is None else f"{sink.published[0] / told:.1f} x",
                number(each.seconds),
                f"{sent[0].seconds / each.seconds:.1f} x",
                number(each.cpu),
                f"{each.requests:,}",
                str(each.most_in_flight),
            )
        )
    published = f"published: for {_PUBLISHED_MESSAGES:,}"
    title = f"Seconds for {setup.size:,} messages to {sink.name}; {published}"
    return Table(title, columns, rows)


def _chart(setup: Setup, sink: Sink, sent: Sequence[Sent]) -> Bars:
    bars = []
    for way, each in zip(WAYS, sent, strict=True):
        if way.published is not None:
            told = sink.published[way.published]
            label = ("published, one after the other", "published, in threads")[way.published]
            times = f"{sink.published[0] / told:.1f} x"
            bars.append(Bar(label, _PUBLISHED_MESSAGES / told, PUBLISHED, times))
        times = f"{sent[0].seconds / each.seconds:.1f} x"
        bars.append(Bar(way.label, setup.size / each.seconds, way.kind, times))
    # Those that were published first.
    bars.sort(key=lambda bar: bar.kind != PUBLISHED)
    return Bars(f"Messages to {sink.name}", "messages a second", bars)


def run(setup: Setup) -> Findings:
    """Send the messages to both sinks in all ways."""
    tables, charts, servers = [], [], []
    for sink in (S3(), SQS()):
        with serve(sink) as (endpoint, environment):
            sent = [
                setup.measured(
                    f"{sink.name}, {way.label}",
                    partial(send, setup, way, sink, endpoint, environment),
                )
                for way in WAYS
            ]
        tables.append(_table(setup, sink, sent))
        charts.append(_chart(setup, sink, sent))
        cpu = sum(each.server_cpu for each in sent)
        servers.append(ServerCost(f"fake {sink.name}", cpu, sum(each.seconds for each in sent)))
    return Findings(tables, charts, servers, NOTES)


NOTES = (
    (
        "Published were 1,000 messages, for each of which S3 took 74 ms and SQS 34 ms on average."
        " Here both take the latency that is stated above: compare the ratios."
    ),
    (
        "The number of threads is not in the part of the source that we could read. Both of its"
        f" ratios are near 15, so the pool has {THREADS} threads here. boto3's client is the usual"
        " one, which keeps 10 connections. ddbload has as many requests in flight at most."
    ),
    (
        "To S3 each message is a request in all ways; ddbload sends the first object twice, to see"
        " that the endpoint heeds its condition, which keeps two rows from one key. To SQS boto3"
        " sends each message by SendMessage, and ddbload up to ten by SendMessageBatch: SQS bills"
        " requests."
    ),
    (
        "ddbload's seconds are those that it prints, from the start of the command to its report."
        " It checks the file, looks at the bucket or queue, and keeps a ledger from which a killed"
        " run is resumed: for few messages, this is much of the time."
    ),
)

EXPERIMENT = Experiment(
    name="sinks",
    title="Messages to S3 and SQS, in parallel",
    source="Sometimes you just want parallelism",
    measures=(
        "It measures the time from the first message to the last answer (ddbload: of the whole"
        " command), and the CPU time of each whole process, for messages of about 130 bytes of"
        " JSON. Every message must arrive once, with the same bytes whoever sent it, and in S3"
        " under the same key. It does not measure S3's and SQS's own limits, nor TLS."
    ),
    unit="messages",
    size=300,
    published_size=_PUBLISHED_MESSAGES,
    latency_ms=40.0,
    run=run,
)
