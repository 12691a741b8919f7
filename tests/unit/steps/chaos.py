"""An orchestrator that delivers each task at least once, among steps that die, double and dawdle.

A recipe says what happens, and after how many moments. A moment is an access to the ledger, the
table or the source, before it or after it took effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, TypeVar

from ddbload.context import Context
from ddbload.contracts.chunks import Chunk, ListingCursor, PreflightCursor
from ddbload.contracts.results import Report
from ddbload.errors import Interrupted, NoProgress, ServiceUnavailable
from tests.fakes.client import ServiceError, read_timeout
from tests.fakes.dynamodb_faults import Fault, error, processed_first
from tests.fakes.s3_faults import Fault as S3Fault
from tests.fakes.s3_faults import ends_after, internal_error
from tests.unit.steps.world import World

T = TypeVar("T")
SECONDS = 1000.0
"""Seconds of an invocation, which only an event makes pass."""
MOST_NESTED = 3


class Killed(BaseException):
    """The process is gone. Not an Exception: nothing may handle it."""


class Event(Enum):
    """Event at a moment of an import."""

    LAND = auto()
    """A write of a dead invocation is written."""
    KILL = auto()
    """The invocation dies here."""
    LATE = auto()
    """The function dies, and its last write arrives later."""
    DOUBLE = auto()
    """The same task is done by another invocation, from start to end; then this one goes on."""
    OTHERS = auto()
    """Another orchestrator does the whole run; then this one goes on."""
    REPORT = auto()
    """Somebody asks for a report."""
    DEADLINE = auto()
    """The invocation's time is over."""
    STOP = auto()
    """It is asked to stop."""
    FAIL = auto()
    """The service answers with an error, or takes a part only, or its answer is lost."""


AT_WORK = {Event.DEADLINE, Event.STOP, Event.FAIL}
"""Events that wait for the work itself: there they cut an invocation in two."""
GAPS = (0, 0, 1, 2, 4, 8, 13, 20)
"""Moments from one event to the next: one often comes upon the other."""


@dataclass(frozen=True)
class Plan:
    """Events, each after a number of moments, and a number that chooses a variant."""

    events: tuple[tuple[int, Event, int], ...]
    backwards: bool
    """Chunks are imported from the last to the first."""
    spares_preflight: bool
    """Nothing happens before there are chunks."""


def plan(recipe: bytes) -> Plan:
    """Three bytes an event, and one more; of zeros, nothing happens."""
    kinds = list(Event)
    triples = zip(recipe[1::3], recipe[2::3], recipe[3::3], strict=False)
    events = tuple(
        (GAPS[gap % len(GAPS)], kinds[kind % len(kinds)], how) for gap, kind, how in triples
    )
    return Plan(events, backwards=recipe[0] % 2 == 1, spares_preflight=recipe[0] // 2 % 2 == 1)


class Chaos:
    """Runs a world by a plan."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.happened: list[Event] = []
        self.reports: list[Any] = []
        """Reports that were written in between."""
        self._plan = plan
        self._events = list(plan.events)
        self._wait = self._events[0][0] if self._events else 0
        self._spared = plan.spares_preflight
        self._late: list[Callable[[], object]] = []
        self._again: list[Callable[[], object]] = []
        self._stopping: list[bool] = []
        self._retry_after = 0.0
        world.store.hook = self._at_store
        world.dynamodb.faults.decide = self._at_table
        world.s3.faults.decide = self._at_source

    # The orchestrator.

    def run(self) -> None:
        """Every task to its end, whatever happens."""
        world = self.world
        cursor: PreflightCursor | ListingCursor | None = None
        while True:
            at = cursor
            result = self._insist(lambda context, at=at: world.preflight_step(at, context))
            if result.cursor is None:
                break
            cursor = result.cursor
        self._spared = False
        groups = world.ledger.find_groups() or ()
        for group in reversed(groups) if self._plan.backwards else groups:
            self._import(group)

    def _import(self, chunks: Sequence[Chunk]) -> None:
        stalled = 0
        while chunks:
            at, before = chunks, stalled
            result = self._insist(
                lambda context, at=at, before=before: self.world.import_step(
                    *at, stalled=before, context=context
                )
            )
            chunks, stalled = result.chunks, result.stalled

    def _insist(self, step: Callable[[Context], T]) -> T:
        """Do a task until an invocation of it answers."""
        while True:
            try:
                return self._invoke(step)
            except (Killed, ServiceUnavailable, Interrupted):
                continue
            except NoProgress:
                # A person looks at it, and begins again without what was counted.
                continue

    def _invoke(self, step: Callable[[Context], T]) -> T:
        world = self.world
        self._stopping.append(False)
        context = world.context(SECONDS, should_stop=lambda: self._stopping[-1])
        self._again.append(lambda: self._invoke(step))
        try:
            return step(context)
        finally:
            self._again.pop()
            self._stopping.pop()

    def finish(self) -> None:
        """Let late writes arrive, and cause no more events."""
        self._events.clear()
        while self._late:
            self._late.pop()()

    def conclude(self) -> Report:
        """Run to the end with all interruptions, and report."""
        self.run()
        self.finish()
        return self.world.report()

    # Moments.

    def _next_event(self, *, at_work: bool, writing: bool) -> tuple[Event, int] | None:
        if not self._events or not self._again or self._spared:
            return None
        if self._wait > 0:
            self._wait -= 1
            return None
        _, event, how = self._events[0]
        if (event in AT_WORK and how % 4 and not at_work) or (event is Event.LATE and not writing):
            return None
        self._events.pop(0)
        self._wait = self._events[0][0] if self._events else 0
        self.happened.append(event)
        return event, how

    def _moment(
        self, later: Callable[[], object] | None = None, *, at_work: bool = False
    ) -> int | None:
        """Let something happen; a number when it is for the service to fail."""
        found = self._next_event(at_work=at_work, writing=later is not None)
        if found is None:
            return None
        event, how = found
        match event:
            case Event.KILL:
                raise Killed
            case Event.LATE:
                assert later is not None
                self._late.append(later)
                raise Killed
            case Event.DOUBLE | Event.OTHERS | Event.REPORT:
                self._nested(event)
            case Event.DEADLINE:
                self.world.clock.sleep(SECONDS)
            case Event.STOP:
                self._stopping[-1:] = [True]
            case Event.LAND:
                if self._late:
                    self._late.pop(how % len(self._late))()
            case Event.FAIL:
                return how
        return None

    def _nested(self, event: Event) -> None:
        if len(self._again) >= MOST_NESTED:
            return
        clock = self.world.clock.time
        try:
            if event is Event.REPORT:
                self._report()
            elif event is Event.OTHERS:
                self.run()
            elif self._again:
                self._again[-1]()
        except (Killed, NoProgress, ServiceUnavailable, Interrupted):
            pass
        # Side by side: what another does takes none of this one's time.
        self.world.clock.time = clock

    def _report(self) -> None:
        if self.world.in_ledger("run.json"):
            self.reports.append(self.world.report())

    def _at_store(self, moment: str, name: str, data: bytes) -> None:
        later: Callable[[], object] | None = None
        objects = self.world.store.objects
        if moment == "put":
            later = lambda: objects.__setitem__(name, data)  # noqa: E731
        elif moment == "put_new":
            later = lambda: objects.setdefault(name, data)  # noqa: E731
        if self._moment(later) is not None:
            # A store that fails for good is the same as a process that does.
            raise ServiceUnavailable("the ledger cannot be reached")

    def _at_table(self, operation: str, params: dict[str, Any]) -> Fault | None:
        if operation not in ("batch_write_item", "put_item", "update_item", "delete_item"):
            self._moment()
            return None
        how = self._moment(lambda: self._write_late(operation, params), at_work=True)
        if how is not None:
            return FAULTS[how % len(FAULTS)]
        # The moment after it took effect.
        try:
            self._moment()
        except Killed as killed:
            return Fault(raises=killed, landed=True)
        return None

    def _at_source(self, _operation: str, _params: dict[str, Any]) -> S3Fault | None:
        # Preflight's work is to read; the import's, to write.
        how = self._moment(at_work=not self.world.in_ledger("manifest.json"))
        return None if how is None else (ends_after(how % 50) if how % 2 else internal_error())

    def _write_late(self, operation: str, params: dict[str, Any]) -> None:
        dynamodb = self.world.dynamodb
        faults = dynamodb.faults
        decide, faults.decide = faults.decide, None
        with suppress(dynamodb.exceptions.ConditionalCheckFailedException):
            getattr(dynamodb, operation)(**params)
        faults.decide = decide


FAULTS: Sequence[Fault] = (
    processed_first(0),
    processed_first(1),
    Fault(raises=read_timeout()),
    Fault(raises=read_timeout(), landed=True),
    Fault(raises=error("ProvisionedThroughputExceededException")),
    Fault(raises=error("InternalServerError"), landed=True),
    Fault(raises=ServiceError("SlowDown", 503)),
    replace(processed_first(1), raises=read_timeout(), landed=True),
)
