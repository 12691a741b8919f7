"""Processes that read spans of a source, and keep the output of each until it is its turn."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from multiprocessing import connection
from typing import Any, Protocol

from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import WorkerDied
from ddbload.ledger.ledger import Ledger
from ddbload.reading.context import LedgerContext
from ddbload.reading.row_batches import (
    CutInsideRowError,
    RowBatch,
    RowSpan,
    iter_row_batches,
)
from ddbload.reading.row_blocks import RunReader, rare_gc
from ddbload.reading.span_output import SpanOutput

UNSETTLED_SPANS = 3
"""Spans of a worker that are queued, read or wait to be settled."""
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class SpanJob(Protocol):
    """Work on the rows of spans, by a worker; it is copied or pickled to get there."""

    @property
    def piece_bytes(self) -> int:
        """Bytes to read at a time."""

    @property
    def deflate(self) -> bool:
        """True to have the output of each span deflated."""

    def work(self, reader: RunReader, batches: Iterator[RowBatch], output: SpanOutput) -> Any:
        """Read all batches, write output, and return a summary that can be pickled."""


class FinishedOutput(Protocol):
    """Output of a span that was read."""

    @property
    def size(self) -> int:
        """Bytes to write."""

    @property
    def length(self) -> int:
        """Bytes before compression."""

    @property
    def crc(self) -> int:
        """CRC-32 of the bytes before compression, if they are compressed."""

    def write_to(self, path: str, offset: int) -> None:
        """Write, now or soon, into a file. Raises `OSError`."""

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes."""


class Unsettled(Enum):
    """Reason why a span that was read has no result."""

    CUT = "cut inside a row"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SpanResult:
    """Result of a span: the job's summary, and the position of its end."""

    summary: Any
    end: Cursor
    size: int
    length: int
    crc: int


class TrackedBatches:
    """Batches of a span, with the position after the last."""

    def __init__(self, batches: Iterator[RowBatch], start: Cursor) -> None:
        self.end = start
        self._batches = batches

    def __iter__(self) -> Iterator[RowBatch]:
        for batch in self._batches:
            self.end = batch.block.end
            yield batch


def work_span(
    reader: RunReader,
    ledger: Ledger,
    context: LedgerContext,
    job: SpanJob,
    span: RowSpan,
    output: SpanOutput,
    each: Callable[[], None] = lambda: None,
) -> SpanResult:
    def must_end() -> bool:
        each()
        return False

    batches = iter_row_batches(
        reader, ledger, context, piece_bytes=job.piece_bytes, must_end=must_end, span=span
    )
    with contextlib.closing(batches):
        tracked = TrackedBatches(batches, span.start)
        summary = job.work(reader, iter(tracked), output)
    output.finish()
    return SpanResult(summary, tracked.end, output.size, output.length, output.crc)


@dataclass(frozen=True, slots=True)
class PoolSetup:
    """Settings that a worker begins with."""

    record: RunRecord
    job: SpanJob
    make_context: Callable[[], LedgerContext]
    folder: str | None


class SpanPool:
    """Processes that read spans. They keep the output of each until it is their turn to write."""

    def __init__(self, count: int, setup: PoolSetup) -> None:
        # A fork needs no imports again, but copies locks that other threads hold.
        can_fork = sys.platform == "linux" and threading.active_count() == 1
        start: Any = multiprocessing.get_context("fork" if can_fork else "spawn")
        self.capacity = count * UNSETTLED_SPANS
        self._processes: list[Any] = []
        self._pipes: list[connection.Connection] = []
        self._unsettled = [0] * count
        self._owner: dict[int, int] = {}
        self._results: dict[int, SpanResult | Unsettled] = {}
        # Spans whose results are ready. A worker sends one when it is asked for: if both sides
        # sent more than a pipe holds, neither would receive.
        self._ready: set[int] = set()
        self._unwritten = self._number = 0
        self._write_error: int | None = None
        try:
            with interrupts_blocked():
                for _ in range(count):
                    ours, theirs = start.Pipe()
                    self._pipes.append(ours)
                    inherited = tuple(self._pipes) if can_fork else ()
                    process = start.Process(
                        target=_work_for_pool, args=(theirs, inherited, setup), daemon=True
                    )
                    process.start()
                    self._processes.append(process)
                    theirs.close()
        except BaseException:
            self.close()
            raise

    def submit(self, span: RowSpan) -> int:
        """Give a span to the worker with the fewest; return its number."""
        worker = self._unsettled.index(min(self._unsettled))
        self._number += 1
        self._owner[self._number] = worker
        self._unsettled[worker] += 1
        self._send(worker, ("read", self._number, span))
        return self._number

    def wait(self, number: int) -> SpanResult | Unsettled:
        """Wait until a span was read."""
        while number not in self._results:
            if number in self._ready:
                self._ready.discard(number)
                self._send(self._owner[number], ("result", number))
            self._receive()
        return self._results[number]

    def write(self, number: int, path: str, offset: int) -> None:
        """Have a worker write the output of a span. Raises `OSError` of an earlier one."""
        self._raise_write_error()
        self._unwritten += 1
        self._send(self._owner[number], ("write", number, path, offset))

    def fetch(self, number: int, size: int) -> Iterator[bytes]:
        """Yield the output of a span."""
        worker = self._owner[number]
        self._send(worker, ("fetch", number))
        while not self._receive_from(worker, number):
            pass
        while size > 0:
            try:
                piece = self._pipes[worker].recv_bytes()
            except (EOFError, OSError):
                raise _died() from None
            size -= len(piece)
            yield piece

    def drop(self, number: int) -> None:
        """Forget a span, once its output is written."""
        worker = self._owner.pop(number)
        self._results.pop(number, None)
        self._ready.discard(number)
        self._unsettled[worker] -= 1
        self._send(worker, ("drop", number))

    def wait_written(self) -> None:
        """Wait until all output is written. Raises `OSError`."""
        while self._unwritten:
            self._receive()
        self._raise_write_error()

    def close(self) -> None:
        """End the workers."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            # Whatever they still do, nobody waits for it.
            process.terminate()
        for process in self._processes:
            process.join()
            process.close()

    def _raise_write_error(self) -> None:
        if self._write_error is not None:
            raise OSError(self._write_error, os.strerror(self._write_error))

    def _send(self, worker: int, message: tuple[Any, ...]) -> None:
        try:
            self._pipes[worker].send(message)
        except OSError:
            raise _died() from None

    def _receive(self) -> None:
        for pipe in connection.wait(self._pipes):
            self._receive_from(self._pipes.index(pipe))  # type: ignore[arg-type]

    def _receive_from(self, worker: int, fetched: int | None = None) -> bool:
        """Receive one message of a worker; True if bytes of the span `fetched` follow."""
        try:
            kind, number, content = self._pipes[worker].recv()
        except (EOFError, OSError):
            raise _died() from None
        if kind == "ready":
            self._ready.add(number)
        elif kind == "result":
            self._results[number] = content
        elif kind == "written":
            self._unwritten -= 1
            self._write_error = self._write_error or content
        return bool(kind == "bytes" and number == fetched)


@dataclass(frozen=True, slots=True)
class RemoteOutput:
    """Output of a span that a worker keeps."""

    _pool: SpanPool
    _number: int
    _result: SpanResult

    @property
    def size(self) -> int:
        return self._result.size

    @property
    def length(self) -> int:
        return self._result.length

    @property
    def crc(self) -> int:
        return self._result.crc

    def write_to(self, path: str, offset: int) -> None:
        self._pool.write(self._number, path, offset)

    def pieces(self) -> Iterator[bytes]:
        return self._pool.fetch(self._number, self.size)


def _died() -> WorkerDied:
    return WorkerDied(
        "a worker process was killed or ran out of memory; try again, with fewer --processes if"
        " memory was short"
    )


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM while processes are started.

    A process inherits that until `unblock_interrupts`. An exception that a handler raises in the
    middle of a fork would be printed and lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_interrupts() -> None:
    """Take signals that `interrupts_blocked` held back; for a worker that has set its handlers."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)


# The code below runs in worker processes.


def _work_for_pool(
    pipe: connection.Connection, inherited: tuple[connection.Connection, ...], setup: PoolSetup
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    unblock_interrupts()
    for other in inherited:
        # Held open here, the end of the parent would go unnoticed.
        other.close()
    with contextlib.suppress(EOFError, ConnectionError), rare_gc():
        _SpanWorker(pipe, setup).run()


class _SpanWorker:
    """Reads spans that come through a pipe, and looks for messages after each batch."""

    def __init__(self, pipe: connection.Connection, setup: PoolSetup) -> None:
        self._pipe = pipe
        self._job, self._folder = setup.job, setup.folder
        self._context = setup.make_context()
        self._reader = RunReader(setup.record)
        # The listing of several objects is not read here: a span has its objects.
        self._ledger = self._context.ledger(setup.record.run)
        self._queue: deque[tuple[int, RowSpan]] = deque()
        self._outputs: dict[int, SpanOutput] = {}
        self._results: dict[int, SpanResult | Unsettled] = {}

    def run(self) -> None:
        """Work until the pipe is closed, which raises `EOFError`."""
        while True:
            while not self._queue or self._pipe.poll():
                self._obey(self._pipe.recv())
            number, span = self._queue.popleft()
            output = SpanOutput(self._folder, deflate=self._job.deflate)
            self._outputs[number] = output
            self._results[number] = self._read(span, output)
            self._pipe.send(("ready", number, None))

    def _read(self, span: RowSpan, output: SpanOutput) -> SpanResult | Unsettled:
        try:
            return work_span(
                self._reader, self._ledger, self._context, self._job, span, output, self._obey_all
            )
        except CutInsideRowError:
            return Unsettled.CUT
        except (EOFError, ConnectionError):
            raise
        except Exception:  # noqa: BLE001 - the parent reads the span itself, and meets it again
            return Unsettled.FAILED

    def _obey_all(self) -> None:
        while self._pipe.poll():
            self._obey(self._pipe.recv())

    def _obey(self, message: tuple[Any, ...]) -> None:
        kind, number, *rest = message
        if kind == "read":
            self._queue.append((number, rest[0]))
        elif kind == "write":
            self._pipe.send(("written", number, self._write(number, *rest)))
        elif kind == "result":
            self._pipe.send(("result", number, self._results.pop(number)))
        elif kind == "fetch":
            self._pipe.send(("bytes", number, None))
            for piece in self._outputs[number].pieces():
                self._pipe.send_bytes(piece)
        else:
            self._results.pop(number, None)
            output = self._outputs.pop(number, None)
            if output is not None:
                output.close()
            self._queue = deque(each for each in self._queue if each[0] != number)

    def _write(self, number: int, path: str, offset: int) -> int | None:
        try:
            self._outputs[number].write_to(path, offset)
        except OSError as error:
            return error.errno or 5
        return None
