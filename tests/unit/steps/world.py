"""A whole import in memory: source, table, ledger and time, each a fake."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ddbload.context import AccessPolicy, ChunkProgress, Context
from ddbload.contracts.chunks import Chunk, ListingCursor, PreflightCursor
from ddbload.contracts.results import Report
from ddbload.contracts.states import ImportResult, ImportTask, PreflightResult, PreflightTask
from ddbload.ledger.counted_chunks import counted_rejects
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_state import Ending
from ddbload.ledger.store import AgesPage, VersionedObject
from ddbload.steps.import_chunk import import_chunk
from ddbload.steps.preflight import preflight
from ddbload.steps.report import write_report
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_tables import keyed
from tests.fakes.events import FakeEvents
from tests.fakes.s3 import FakeS3

BUCKET, KEY, TABLE, RUN = "bucket", "in/file.csv", "books", "run-1"
Item = dict[str, dict[str, Any]]


class Clock:
    """Time that passes only when something takes time."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class MemoryStore:
    """Store in a dictionary; calls `hook` before each access, and after each write."""

    def __init__(
        self,
        hook: Callable[[str, str, bytes], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.objects: dict[str, bytes] = {}
        self.written: dict[str, float] = {}
        self.clock = clock
        self.page_names = 1000
        self.hook = hook or (lambda _moment, _name, _data: None)

    def get(self, name: str) -> bytes | None:
        self.hook("get", name, b"")
        return self.objects.get(name)

    def get_version(self, name: str) -> VersionedObject | None:
        data = self.get(name)
        return None if data is None else VersionedObject(data, f"of {data!r}")

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        return map(self.get, names)

    def put(self, name: str, data: bytes) -> None:
        self.hook("put", name, data)
        self.objects[name] = data
        self.written[name] = self.clock()
        self.hook("done", name, data)

    def put_new(self, name: str, data: bytes) -> bool:
        self.hook("put_new", name, data)
        new = name not in self.objects
        self.objects.setdefault(name, data)
        if new:
            self.written[name] = self.clock()
        self.hook("done", name, data)
        return new

    def put_over(self, name: str, data: bytes, version: str | None) -> bool:
        self.hook("put_over", name, data)
        found = self.objects.get(name)
        if (None if found is None else f"of {found!r}") != version:
            return False
        self.objects[name] = data
        self.written[name] = self.clock()
        self.hook("done", name, data)
        return True

    def names(self, prefix: str) -> list[str]:
        self.hook("names", prefix, b"")
        return sorted(name for name in self.objects if name.startswith(prefix))

    def folders(self, prefix: str) -> list[str]:
        below = (name.removeprefix(prefix).partition("/") for name in self.names(prefix))
        return sorted({folder for folder, slash, _ in below if slash})

    def ages(self, prefix: str) -> dict[str, float]:
        now = self.clock()
        return {name: now - self.written.get(name, now) for name in self.names(prefix)}

    def page(self, folder: str, after: str = "") -> AgesPage:
        self.hook("page", folder, b"")
        ages = {name.removeprefix(folder): age for name, age in self._ages(folder).items()}
        names = sorted(name for name in ages if name > after)
        found = {name: ages[name] for name in names[: self.page_names]}
        return AgesPage(found, len(names) > self.page_names)

    def pages(self, prefix: str, after: str = "", *, most: int = 1000) -> Iterator[AgesPage]:
        self.hook("names", prefix, b"")
        ages = {name: age for name, age in self._ages(prefix).items() if name > prefix + after}
        yield AgesPage(dict(sorted(ages.items())), more=False)

    def read_folder(self, folder: str, after: str = "") -> Generator[tuple[str, bytes | None]]:
        more = True
        while more:
            page = self.page(folder, after)
            for name in page.ages:
                yield name, self.get(folder + name)
                after = name
            more = page.more

    def _ages(self, prefix: str) -> dict[str, float]:
        now = self.clock()
        names = (name for name in self.objects if name.startswith(prefix))
        return {name: now - self.written.get(name, now) for name in names}

    def delete(self, name: str) -> None:
        self.hook("delete", name, b"")
        self.objects.pop(name, None)

    def uri(self, name: str) -> str:
        return f"memory:{name}"


@dataclass
class FakeClients:
    """`Clients` over fakes: no credentials, and no signers, which would open sockets."""

    dynamodb: Any
    s3: Any
    stepfunctions: Any = None
    events: Any = None

    @property
    def dynamodb_signer(self) -> Any:
        raise AssertionError("unit tests send no requests over the network")

    def renew(self) -> None:
        """Do nothing: fakes have no credentials."""

    def s3_signer(self, bucket: str) -> None:
        """Return None: the fake client reads every bucket."""


@dataclass
class World:
    """One file in a bucket, one table, one ledger; and the three steps over them."""

    data: bytes
    keys: Sequence[tuple[str, str]] = (("id", "S"),)
    indexes: Sequence[Sequence[tuple[str, str]]] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    access: AccessPolicy = field(default_factory=AccessPolicy)
    request_seconds: float = 0.0
    make_table: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the payload: `mapping`, `nulls`, `infer_types`."""

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.s3 = FakeS3()
        self.s3.create_bucket(Bucket=BUCKET)
        self.s3.put_object(Bucket=BUCKET, Key=KEY, Body=self.data)
        self.events = FakeEvents()
        self.dynamodb = FakeDynamoDB(latency=self.request_seconds, sleep=self.clock.sleep)
        self.store: Any = MemoryStore(clock=self.clock)
        self.seed = 0
        if self.make_table:
            self.create_table()

    def create_table(self) -> None:
        used = dict([*self.keys, *(key for index in self.indexes for key in index)])
        more: dict[str, Any] = {}
        if self.indexes:
            more["GlobalSecondaryIndexes"] = [
                {
                    "IndexName": f"index-{number}",
                    "KeySchema": keyed("", **dict(index))["KeySchema"],
                    "Projection": {"ProjectionType": "ALL"},
                }
                for number, index in enumerate(self.indexes)
            ]
        table = keyed(TABLE, **dict(self.keys))
        more["AttributeDefinitions"] = keyed(TABLE, **used)["AttributeDefinitions"]
        self.dynamodb.create_table(**table | more)

    @property
    def payload(self) -> dict[str, Any]:
        return {
            "source": {"bucket": BUCKET, "key": KEY, **self.source},
            "target": {"table": TABLE},
            "types": dict(self.types),
            "options": {"engine": "sync", **self.options},
            **self.more,
        }

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store, RUN)

    @property
    def manifest(self) -> tuple[Chunk, ...]:
        return self.ledger.find_manifest() or ()

    @property
    def items(self) -> list[Item]:
        return self.dynamodb.items(TABLE)

    def context(
        self,
        seconds: float = float("inf"),
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[ChunkProgress], None] = lambda _: None,
    ) -> Context:
        """Make a step's context, with a deadline in `seconds`."""
        self.seed += 1
        return Context(
            store=self.store,
            clients=FakeClients(self.dynamodb, self.s3, events=self.events),
            access=self.access,
            deadline=self.clock.time + seconds,
            should_stop=should_stop,
            progress=progress,
            clock=self.clock,
            now=self.clock,
            sleep=self.clock.sleep,
            rng=random.Random(self.seed),
        )

    def preflight_step(
        self,
        cursor: PreflightCursor | ListingCursor | None = None,
        context: Context | None = None,
    ) -> PreflightResult | PreflightTask:
        return preflight(PreflightTask(self.payload, RUN, cursor), context or self.context())

    def preflight(self, seconds: float = float("inf")) -> PreflightResult:
        """Run preflight to its end, with a number of seconds for each invocation."""
        result = self.preflight_step(None, self.context(seconds))
        while result.cursor is not None:
            result = self.preflight_step(result.cursor, self.context(seconds))
        assert isinstance(result, PreflightResult)
        return result

    def import_step(
        self,
        *chunks: Chunk,
        stalled: int = 0,
        context: Context | None = None,
    ) -> ImportResult:
        return import_chunk(ImportTask(RUN, chunks, stalled), context or self.context())

    def import_one(self, *chunks: Chunk, seconds: float = float("inf")) -> int:
        """Import chunks side by side to their end; how many invocations it took."""
        result, count = self.import_step(*chunks, context=self.context(seconds)), 1
        while result.chunks:
            context = self.context(seconds)
            result = self.import_step(*result.chunks, stalled=result.stalled, context=context)
            count += 1
        return count

    def import_all(self, seconds: float = float("inf")) -> None:
        """Import all groups of chunks, one after the other."""
        for group in self.ledger.find_groups() or ():
            self.import_one(*group, seconds=seconds)

    def report(self, *, interrupted: bool = False) -> Report:
        return write_report(RUN, self.context(), Ending(interrupted=interrupted))

    def run(self, seconds: float = float("inf")) -> Report:
        """All three steps."""
        self.preflight(seconds)
        self.import_all(seconds)
        return self.report()

    def overwrite(self, data: bytes) -> None:
        """Put another object in the source's place."""
        self.s3.put_object(Bucket=BUCKET, Key=KEY, Body=data)

    def read_json(self, name: str) -> Any:
        """An object of the run's ledger."""
        return json.loads(self.store.objects[f"runs/{RUN}/{name}"])

    def write_json(self, name: str, value: object) -> None:
        """Tamper with the run's ledger."""
        text = json.dumps(value, separators=(",", ":"))
        self.store.objects[f"runs/{RUN}/{name}"] = text.encode()

    def in_ledger(self, prefix: str = "") -> list[str]:
        """Names in the run's ledger."""
        root = f"runs/{RUN}/"
        names = (name.removeprefix(root) for name in self.store.objects)
        return sorted(name for name in names if name.startswith(prefix))

    @property
    def beyond_request(self) -> dict[str, bytes]:
        """Objects of the store besides a request, its entry in the index and its execution."""
        return {
            name: data
            for name, data in self.store.objects.items()
            if not name.startswith("started/")
            and not name.endswith(("/request.json", "/execution.json"))
        }

    def rejects(self) -> list[dict[str, Any]]:
        """The reject lines of the segments that count, as they are shown."""
        return [json.loads(line) for line in counted_rejects(self.ledger)]


def by_value(item: Item) -> dict[str, tuple[str, Any]]:
    """An item with its numbers as numbers: `1` and `1.0` are the same."""
    found = {}
    for name, value in item.items():
        ((kind, content),) = value.items()
        found[name] = (kind, Decimal(content) if kind == "N" else content)
    return found
