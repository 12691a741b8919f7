"""This process, or this environment of the function, as one of the workers of a run.

A worker records in the ledger that it is alive and how far it is, and obeys `control.json` within
seconds: a thread beside the import does both. The import itself reads attributes only.

While it is not known to be alive, a worker sends nothing: its limits are valid for three periods
after it began to write its progress. So a process that was frozen meanwhile looks at `control.json`
before it sends again, and others may count it as dead.

A function without a limit first only looks at `control.json`, and writes its progress when it ends
or after a period. Until it has, it may send for `UNSEEN_SECONDS` after its last look. So a
command that cancels the run sees all workers that still send once that time has passed.
"""

from __future__ import annotations

import math
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ddbload.contracts.control import (
    IDLE,
    MISSED_RENEWALS,
    UNSEEN_SECONDS,
    WORKING,
    Control,
    WorkerProgress,
    control_seconds,
    renewal_seconds,
)
from ddbload.contracts.row_counts import WorkTotals
from ddbload.contracts.run_record import RunRecord, amount_text
from ddbload.errors import (
    TAKE_UP,
    Cancelled,
    ControlLost,
    DdbloadError,
    InvalidPayload,
    MaxCostReached,
    unexpected,
)
from ddbload.ledger.ledger import Ledger
from ddbload.write.pacing.pacing import WcuBudget
from ddbload.write.pacing.shared_budget import Limits, SharedBudget

TICK_SECONDS = 0.5
"""Time between two looks of the thread at what is due."""
LINGER_SECONDS = 1.0
"""Time without a chunk after which a process gives back its share of the limits."""
JOIN_SECONDS = 5.0
"""Longest wait for a thread whose request to the ledger is not answered."""
MAX_SESSIONS = 16
"""Runs that a function environment remembers. It may import chunks of thousands in turn."""


class RunWorker:
    """One process or function environment, in all runs that it works on."""

    def __init__(
        self, worker: str, *, lingers: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`worker`: random hexadecimal digits.

        `lingers`: go on between two chunks, and be idle only after a while without one. An
        environment of the function is frozen between two chunks.
        """
        self.worker = worker
        self._lingers = lingers
        self._clock = clock
        self._sessions: dict[str, WorkerSession] = {}
        self._forgets = False

    def session(self, ledger: Ledger, record: RunRecord) -> WorkerSession:
        """Return the part that this worker takes in a run."""
        session = self._sessions.pop(record.run, None)
        if session is None:
            # A worker whose totals are forgotten must not count them from zero under its name.
            worker = secrets.token_hex(8) if self._forgets else self.worker
            session = WorkerSession(worker, ledger, record, self._lingers, self._clock)
        if len(self._sessions) == MAX_SESSIONS:
            # The one that was used longest ago. It is idle: an environment imports one chunk.
            del self._sessions[next(iter(self._sessions))]
            self._forgets = True
        self._sessions[record.run] = session
        return session

    @contextmanager
    def importing(
        self, ledger: Ledger, record: RunRecord, *, alone: bool = False
    ) -> Iterator[WorkerSession]:
        """Take part in a run while a chunk is imported.

        `alone`: this invocation imports the whole run, so that its segment has all that the
        progress of a worker would show.

        Raises `Cancelled` before anything is sent if the run is cancelled, and errors of the
        ledger.
        """
        session = self.session(ledger, record)
        session.enter(ledger)
        session.alone = alone
        try:
            yield session
        finally:
            session.leave()

    def close(self) -> None:
        """End the threads, and give back all shares."""
        for session in self._sessions.values():
            session.close()


@dataclass(eq=False)
class WorkerSession:
    """The work of one worker for one run, kept from one chunk to the next."""

    worker: str
    """Name of the worker in this run's progress and segments."""
    ledger: Ledger
    record: RunRecord
    lingers: bool
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        ledger, record = self.ledger, self.record
        self.budget = WcuBudget(None, self.clock())
        """Limits and debts of the worker, kept from chunk to chunk so that no debt is forgiven."""
        self.stopped = False
        """True if no further request may be sent; `raise_pending` says why."""
        self.alone = False
        """True if no other worker takes part in the run."""
        self._run = record.run
        self._shared = SharedBudget(record.workers)
        self._price = record.write_price
        self._payload_control = Control.of(record.payload.options)
        self._control = self._payload_control
        self._error: DdbloadError | None = None
        # Why the last renewal failed; None if it succeeded.
        self._failure: DdbloadError | None = None
        self._silent_since: float | None = None
        # Replaced as a whole, so that a reader sees figures of one moment: the totals of segments,
        # the chunk, the byte at which its invocation began, and the totals of that.
        self._figures: tuple[WorkTotals, int | None, int, WorkTotals]
        self._figures = WorkTotals(), None, 0, WorkTotals()
        # Number of the next name, and of the first one since the worker was idle.
        self._number = self._first_number = 0
        self._published: WorkerProgress | None = None
        # True if others see in the ledger that this worker works.
        self._seen = False
        self._state = IDLE
        self._busy = False
        self._left_at = -math.inf
        # True if the last chunk ended without a segment for some of its work.
        self._lost = False
        self._control_every = control_seconds(())
        self._renew_every = renewal_seconds(ledger.progress_seconds, ())
        self._control_at = self._renew_at = -math.inf
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    # For the import.

    def enter(self, ledger: Ledger) -> None:
        """Begin a chunk. Raises `Cancelled`, and errors of the ledger."""
        with self._lock:
            self.ledger = ledger
            self._busy = True
            try:
                if self._state == IDLE or self._end.is_set():
                    self._begin()
            except BaseException:
                self._busy = False
                self._go_idle()
                raise
            if self._thread is None:
                self._end = threading.Event()
                self._thread = threading.Thread(
                    target=self._loop, args=(self._end,), name="control", daemon=True
                )
                self._thread.start()

    def leave(self) -> None:
        """End a chunk."""
        settled, _, _, lost = self._figures
        self._lost = lost != WorkTotals()
        # Without a segment, its rows are read again; but its write units are consumed.
        self._figures = settled + WorkTotals(work=lost.work), None, 0, WorkTotals()
        self._busy = False
        self._left_at = self.clock()
        if not self.lingers or self.stopped:
            self.close()

    def close(self) -> None:
        """End the thread, and say that nothing is sent any more."""
        self._end.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(JOIN_SECONDS)
            if thread.is_alive():
                # The ledger does not answer. The worker counts as dead after three periods.
                return
        with self._lock:
            self._go_idle()

    def stop_requested(self, now: float) -> bool:
        """Return whether to stop. Called thousands of times a second."""
        if now >= self.budget.valid_until:
            self._check_silence(now)
        return self.stopped

    def progress(self, chunk: int, start: int, current: WorkTotals) -> None:
        """Replace the totals of the invocation that began at byte `start` of its first chunk."""
        self._figures = self._figures[0], chunk, start, current

    def settle(self, totals: WorkTotals) -> None:
        """Count the segments that this worker has written."""
        self._figures = self._figures[0] + totals, None, 0, WorkTotals()

    def raise_pending(self) -> None:
        """Raise the error that stopped the worker, if any."""
        if self._error is not None:
            raise self._error

    def _check_silence(self, now: float) -> None:
        """Stop if a limit is in force and the ledger has been out of reach for too long."""
        # A process that was frozen has a period to renew its progress.
        if self._silent_since is None:
            self._silent_since = now
        elif self._shared.limited and now - self._silent_since > self._renew_every:
            cause = "" if self._failure is None else f" ({self._failure.message})"
            self._stop(
                ControlLost(
                    f"a worker of run {self._run} could not write its progress into the ledger for"
                    f" {MISSED_RENEWALS * self._renew_every:.0f} seconds{cause}; it stopped,"
                    " because its share of the limit may be another's now: check the ledger, then"
                    f" {TAKE_UP}"
                )
            )

    # For the thread.

    def _loop(self, end: threading.Event) -> None:
        # Signals must interrupt the main thread, which may be blocked in a read.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while not end.wait(TICK_SECONDS):
            self.tick()

    def tick(self) -> None:
        """Do what is due: read `control.json`, write the progress, list the others."""
        with self._lock:
            try:
                self._tick()
            except DdbloadError as error:
                if error.permanent:
                    self._stop(error)
                # Tried again at the next tick. `valid_until` bounds how long requests are sent.
                self._failure = error
            except Exception as error:  # noqa: BLE001 - its text may hold anything
                self._stop(unexpected(error, "controlling a worker"))

    def _tick(self) -> None:
        now = self.clock()
        if self._state == IDLE:
            return
        if not self._busy:
            if now - self._left_at >= LINGER_SECONDS:
                self._go_idle()
            return
        if now >= min(self._control_at, self._renew_at):
            self._refresh(now)

    def _refresh(self, now: float) -> None:
        changed = self._read_control()
        self._control_at = now + self._control_every
        if self._control.cancelled:
            self._stop(Cancelled.of(self._run))
        unseen = self.stopped and not self._seen
        unsettled = self._shared.is_unsettled(self.budget.used)
        if changed or unseen or unsettled or now >= self._renew_at:
            self._claim()
            self._publish(WORKING)
            self._list(now)
        elif not self._shared.limited:
            self._confirm(now)

    def _begin(self) -> None:
        """Write that the worker is alive, then read `control.json`.

        In this order: who cancels the run either finds the worker in the listing, or the worker
        finds the run cancelled. A function without a limit reads only, and is seen later.
        """
        now = self.clock()
        self.stopped, self._error, self._failure = False, None, None
        self.budget.valid_until = -math.inf
        self._shared.rejoin()
        self._take_limits()
        self._state, self._seen, self._first_number = WORKING, False, self._number
        if self.lingers or self._shared.limited:
            self._claim()
            self._publish(WORKING)
        changed = self._read_control()
        if self._control.cancelled:
            raise Cancelled.of(self._run)
        if changed:
            self._claim()
            self._publish(WORKING)
        if self._shared.limited:
            self._list(now)
            # Others may not have started yet; those that never do leave their shares soon.
            self._renew_at = self._control_at
            return
        self._control_at = now + self._control_every
        self._renew_at = now + (self._renew_every if self._seen else self.ledger.progress_seconds)
        self._confirm(now)

    def _read_control(self) -> bool:
        """Read `control.json`; return whether the limits changed."""
        before = self._control
        self._control = self.ledger.find_control() or self._payload_control
        if self._control == before:
            return False
        self._take_limits()
        return True

    def _take_limits(self) -> None:
        max_cost, units = self._control.max_cost, None
        if max_cost is not None:
            units = None if self._price is None else self._price.units(max_cost)
            if units is None:
                raise InvalidPayload(
                    f"run {self._run} has a max_cost, but the write units of its table have no"
                    " price; ddbload limit with --max-cost none removes it"
                )
        self._shared.set_budget(Limits(self._control.max_wcu, units))
        self._apply()

    def _list(self, now: float) -> None:
        """List the others, and use what they leave of the limits."""
        seen = self.ledger.workers()
        others = [each for each in seen if each.progress.worker != self.worker]
        self._shared.listed(others)
        self._apply()
        if self._shared.is_spent(self.budget.used):
            self._stop(self._spent_error())
        ages = [each.age for each in seen]
        self._control_every = control_seconds(ages)
        self._renew_every = renewal_seconds(self.ledger.progress_seconds, ages)
        self._renew_at = now + self._renew_every
        self._control_at = now + min(self._control_every, self._renew_every)
        self._confirm(now)

    def _spent_error(self) -> MaxCostReached:
        units, price = self._shared.units_spent(self.budget.used), self._price
        spent = "" if price is None else f", {amount_text(price.dollars(units))}"
        lost = self._shared.units_forfeited
        killed = f" (up to {lost:,.0f} of them by workers that were killed)" if lost >= 1 else ""
        return MaxCostReached(
            f"run {self._run} has consumed {units:,.0f} write units{spent}{killed}: its max_cost is"
            f" {amount_text(self._control.max_cost or 0.0)}; ddbload resume {self._run} --max-cost"
            " with a higher amount continues it"
        )

    def _confirm(self, began: float) -> None:
        """Allow requests for three periods from the time when the ledger was last reached."""
        self._failure = self._silent_since = None
        seconds = MISSED_RENEWALS * self._renew_every if self._seen else UNSEEN_SECONDS
        self.budget.valid_until = began + seconds

    def _claim(self) -> None:
        while True:
            claimed = self._shared.claim(self.budget.used)
            self._apply()
            if claimed.units is None or self.budget.used <= claimed.units:
                return

    def _apply(self) -> None:
        allowed = self._shared.allowed
        self.budget.units_per_second = allowed.wcu
        self.budget.unit_limit = allowed.units

    def _go_idle(self) -> None:
        """Give back the shares. If the ledger is out of reach, silence says it."""
        if self._state == IDLE:
            return
        self.budget.valid_until = -math.inf
        self._shared.release(self.budget.used)
        self._apply()
        last = self._published or WorkerProgress(self.worker, 0, IDLE, None, None)
        is_published = (last.state, last.settled) == (IDLE, self._figures[0])
        if self.alone and not self._seen and not self._lost:
            is_published = True
        if not is_published or self._number > self._first_number:
            with suppress(DdbloadError):
                self._publish(IDLE)
        self._state, self._seen = IDLE, False

    def _publish(self, state: str) -> None:
        settled, chunk, start, current = self._figures
        claimed = self._shared.claimed
        progress = WorkerProgress(
            *(self.worker, self._number, state, claimed.wcu, claimed.units),
            *(settled, chunk, start, current),
        )
        # Counted before writing: an object may exist although writing it failed.
        self._number += 1
        self.ledger.put_worker(progress, self._published)
        self._published = progress
        self._seen = True

    def _stop(self, error: DdbloadError) -> None:
        self._error = self._error or error
        self.stopped = True
