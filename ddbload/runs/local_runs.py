"""Runs on this machine: settings, and heartbeats of the processes that work on them."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Self

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.context import AccessPolicy, ChunkProgress, Context, segment_reader
from ddbload.contracts.control import CONTROL_SECONDS
from ddbload.contracts.options import ASYNC, DEFAULT_CONCURRENCY, THREADS
from ddbload.contracts.results import Heartbeat
from ddbload.contracts.row_counts import RowCounts
from ddbload.errors import DdbloadError, InvalidUsage, RunUnderWay
from ddbload.ledger.bucket_store import BucketStore
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_state import ALIVE, ENDED, is_alive
from ddbload.ledger.store import FolderStore, Store
from ddbload.records import Record
from ddbload.run_worker import RunWorker
from ddbload.runs.follow_progress import FOLDER_SECONDS_APART, RequestPace, follow_progress
from ddbload.runs.progress import RunProgress
from ddbload.steps.report import is_another, is_gone, machine

SEGMENT_SECONDS = 60.0
"""Maximum seconds of one step. A crash loses at most this much work."""
_SKIPPED_BYTES_PER_SECOND = 20e6
"""Bytes per second that any machine can decode when it only skips them."""


class LocalSettings(Record):
    """Settings of a local run, in a form that can be sent to worker processes."""

    ledger: str
    """Location of the ledger: a folder, or s3://bucket/prefix."""
    aws: AwsSettings = field(default_factory=AwsSettings)
    concurrency: int = DEFAULT_CONCURRENCY
    segment_seconds: float = SEGMENT_SECONDS

    def clients(self) -> Clients:
        """Make AWS clients from the settings."""
        return Clients(self.aws, connections=self.concurrency)

    def context(
        self,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[ChunkProgress], None] = lambda _: None,
        clients: Clients | None = None,
    ) -> Context:
        """Make a context with a new store, and with new clients unless `clients` is given."""
        clients = clients or self.clients()
        control = RunWorker(secrets.token_hex(8), lingers=True)
        return Context(
            store=open_store(self.ledger, clients),
            worker=control.worker,
            control=control,
            clients=clients,
            access=AccessPolicy(paths=True),
            should_stop=should_stop,
            progress=progress,
        )


def step_seconds(segment_seconds: float, skipped: int) -> float:
    """Return the time limit in seconds of a step that first skips this many bytes.

    A compressed source is decoded from its beginning up to the cursor. Without extra time a step
    could use up its limit before it reaches a new row.
    """
    return segment_seconds + skipped / _SKIPPED_BYTES_PER_SECOND


def default_ledger() -> str:
    """Return the default ledger: $DDBLOAD_LEDGER, or `ddbload` in XDG's folder for state.

    Raises `InvalidUsage` if there is no home folder.
    """
    return os.environ.get("DDBLOAD_LEDGER") or str(_state_folder())


def local_folder(ledger: str) -> Path:
    """Return the folder of a ledger. For a ledger in S3, return ddbload's local state folder.

    Raises `InvalidUsage` if there is no home folder.
    """
    return _state_folder() if ledger.startswith("s3://") else Path(ledger)


def _state_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:
        raise InvalidUsage("there is no home folder to keep runs in; give --ledger") from None
    return folder / "ddbload"


def default_engine(clients: Clients) -> str:
    """Return the engine that needs the least CPU; behind a proxy only botocore's works."""
    # Imported here so that --help does not load botocore.
    from ddbload.aws.signing.signers import has_proxy

    return THREADS if has_proxy(clients.dynamodb.meta.endpoint_url) else ASYNC


def open_store(location: str, clients: Clients) -> Store:
    """Open the store at a folder or an s3:// URI. Raises `InvalidUsage`."""
    if not location.startswith("s3://"):
        if Path(location).is_file():
            raise InvalidUsage(f"the ledger {location} is a file: name a folder (--ledger)")
        return FolderStore(Path(location))
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    if not bucket:
        raise InvalidUsage(f"the ledger {location!r} names no bucket")
    return BucketStore(clients.s3, bucket, prefix, read_many=segment_reader(clients))


SPOOL, PREFLIGHT, IMPORT = "spool", "preflight", "import"
"""Names of steps in a heartbeat."""

FOLDER_SECONDS, BUCKET_SECONDS = 2.0, 5.0
"""Seconds between heartbeats, for a ledger in a folder and in S3."""
BEGIN_POLL_SECONDS = 0.25
"""Seconds between checks whether a run has begun."""


class HeartbeatWriter:
    """Thread that writes heartbeats, reads `control.json`, and detects a takeover of the run.

    It is a thread because the import itself may be busy for minutes. A suspended process counts as
    dead, and another process may take over its run; the suspended one must then stop when it wakes
    up.

    The first heartbeat is written with the run's record, or after one period, so that a refused run
    leaves nothing in the ledger. Leaving the context records that the run ended.
    """

    def __init__(self, ledger: Ledger, context: Context, step: str = PREFLIGHT) -> None:
        self.cancelled = False
        """True if the run was cancelled."""
        self.has_begun = False
        """True if this process has begun or taken up the run."""
        self._overtaken_by: Heartbeat | None = None
        self._ledger = ledger
        self._now = context.now
        self._every = BUCKET_SECONDS if ledger.in_bucket else FOLDER_SECONDS
        self._step = step
        self._progress = (RowCounts(), 0, 0)
        self._has_written = False
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_end, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        if self._has_written and not self._is_overtaken():
            self._write(ENDED)

    @property
    def stopped(self) -> bool:
        """True if this process must stop. `look` raises the reason."""
        return self.cancelled or self._overtaken_by is not None

    def look(self) -> None:
        """Read the ledger now. Raises `RunUnderWay` if another process works on the run.

        Also reads whether the run was cancelled.
        """
        self._read_control()
        if self._is_overtaken():
            self.raise_overtaken()

    def raise_overtaken(self) -> None:
        """Raise `RunUnderWay` if another process is known to have taken over the run."""
        other = self._overtaken_by
        if other is not None:
            raise RunUnderWay(
                f"process {other.pid} on {other.host} has taken up run {self._ledger.run}, because"
                " this one had been silent, as if it were dead: this one stopped; ddbload status"
                f" {self._ledger.run} shows the other"
            )

    def begin(self) -> None:
        """Write a heartbeat, because the run has begun."""
        self.has_begun = True
        self.beat()

    def beat(self) -> None:
        """Write a heartbeat with the latest progress, unless another process works on the run."""
        # If the heartbeat cannot be written (disk full), that of an earlier attempt stays; that is
        # not a takeover.
        if not self._is_overtaken() and self._write(ALIVE):
            self._has_written = True

    def set_progress(self, rows: RowCounts, bytes_read: int, size: int) -> None:
        """Store the import's progress for the next heartbeat."""
        self._step, self._progress = IMPORT, (rows, bytes_read, size)

    def _beat_until_end(self) -> None:
        # Signals must interrupt the main thread, which may be blocked in a read.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        every = min(CONTROL_SECONDS, self._every)
        waited = 0.0
        while not self._end.wait(every):
            self._read_control()
            self._is_overtaken()
            waited += every
            if waited + every > self._every:
                waited = 0.0
                self.beat()

    def _read_control(self) -> None:
        with suppress(DdbloadError):
            # Read again soon. Workers that cannot read it stop by themselves.
            control = self._ledger.find_control()
            self.cancelled = control is not None and control.cancelled

    def _is_overtaken(self) -> bool:
        """Return whether another process has written a heartbeat after this one."""
        if self._overtaken_by is None:
            with suppress(DdbloadError):
                found = self._ledger.find_heartbeat()
                # Before this process's first heartbeat, the ledger may hold that of an earlier
                # attempt.
                counts = found is not None and (self._has_written or works(found, self._now()))
                if found is not None and counts and is_another(found):
                    self._overtaken_by = found
        return self._overtaken_by is not None

    def _write(self, state: str) -> bool:
        host, boot = machine()
        # A lost heartbeat does not end a run. If the ledger is gone, writing a segment fails.
        with self._lock, suppress(DdbloadError):
            self._ledger.put_heartbeat(
                Heartbeat(
                    *(state, self._step, host, boot, os.getpid(), self._now(), self._every),
                    *self._progress,
                )
            )
            return True
        return False


def follow_process(run: str, context: Context, watch: Callable[[RunProgress], None]) -> None:
    """Pass the progress of a run to `watch` until no process works on it any more."""
    ledger, pace = context.ledger(run), RequestPace(context.clock, context.sleep)
    if not ledger.in_bucket:
        pace.burst, pace.seconds, pace.least = 1, FOLDER_SECONDS_APART, FOLDER_SECONDS_APART
    follow_progress(ledger, lambda: live_heartbeat(run, context) is None or None, pace, watch)


def live_heartbeat(run: str, context: Context) -> Heartbeat | None:
    """Return the heartbeat of the process that works on a run; None if no process does."""
    found = context.ledger(run).find_heartbeat()
    return found if found is not None and works(found, context.now()) else None


def works(heartbeat: Heartbeat, now: float) -> bool:
    """Return whether the process that wrote a heartbeat is still alive."""
    return is_alive(heartbeat, now, process_gone=is_gone(heartbeat))


def wait_for_begin(run: str, context: Context) -> bool:
    """Wait until a run that was just started on this machine is visible; return whether it is.

    A run's id is printed before its first heartbeat, which is written within one period.
    """
    ledger = context.ledger(run)
    every = BUCKET_SECONDS if ledger.in_bucket else FOLDER_SECONDS
    until = context.clock() + every + BEGIN_POLL_SECONDS
    while ledger.find_record() is None and live_heartbeat(run, context) is None:
        if context.clock() >= until:
            return False
        context.sleep(BEGIN_POLL_SECONDS)
    return True
