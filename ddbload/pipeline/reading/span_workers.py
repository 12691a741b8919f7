"""Read a source's spans in several processes, and settle them in order.

Results are those of one process, whatever the number: each span is read as if by itself, and is
taken in the source's order, once the span before it has proved that it begins with a row. What a
worker cannot settle, such as an error, is read again in this process, from the known position.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from multiprocessing import connection
from typing import Any, Protocol

from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import WorkerDied
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.reading.row_batches import (
    CutInsideRowError,
    RowBatch,
    RowSpan,
    iter_row_batches,
)
from ddbload.pipeline.reading.row_blocks import RunReader, rare_gc
from ddbload.pipeline.reading.row_spans import iter_spans
from ddbload.pipeline.reading.span_output import SpanOutput

UNSETTLED_SPANS = 3
"""Spans of a worker that are queued, read or wait to be settled."""
MAX_WRONG_CUTS = 3
"""Cuts inside rows after which the rest of the source is read as one span."""


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


class SpanTaker(Protocol):
    """Consumer of spans in the order of the source."""

    def take(self, summary: Any, output: FinishedOutput, start: Cursor) -> bool:
        """Take a span that a worker read; False to have it read by `read` instead."""

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Read a span in this process. Raises what keeps it from being taken."""

    def check_stop(self) -> None:
        """Raise `Interrupted` to stop."""


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


class _Unsettled(Enum):
    """Reason why a span that was read has no result."""

    CUT = "cut inside a row"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class _Result:
    """Result of a span: the job's summary, and the position of its end."""

    summary: Any
    end: Cursor
    size: int
    length: int
    crc: int


class _Tracked:
    """Batches of a span, with the position after the last."""

    def __init__(self, batches: Iterator[RowBatch], start: Cursor) -> None:
        self.end = start
        self._batches = batches

    def __iter__(self) -> Iterator[RowBatch]:
        for batch in self._batches:
            self.end = batch.block.end
            yield batch


def settle_spans(
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    job: SpanJob,
    taker: SpanTaker,
    *,
    processes: int = 1,
    make_context: Callable[[], Context] | None = None,
    folder: str | None = None,
) -> None:
    """Read all rows of a run by `processes`, and have them taken in order.

    Args:
        record: Record of the run.
        ledger: Ledger with the listing of several objects.
        context: Clients and access policy.
        job: Work on each span.
        taker: Consumer of the results.
        processes: Most worker processes. With 1, and for a source of one span, all is done in this
            process.
        make_context: Maker of a worker's context; by default it uses a copy of `context`.
        folder: Folder for output that does not fit in memory.

    Raises:
        WorkerDied: If a worker was killed.
        DdbloadError: If the source cannot be read, or as the taker raises.
    """
    reader = RunReader(record)
    with contextlib.closing(iter_spans(reader, ledger, context)) as spans, rare_gc():
        first = list(_take(spans, 2))
        several = len(first) > 1
        setup = _Setup(record, job, make_context or (lambda: context), folder)
        with contextlib.ExitStack() as stack:
            pool = None
            if several and processes > 1:
                pool = stack.enter_context(contextlib.closing(SpanPool(processes, setup)))
            _Settlement(reader, ledger, context, job, taker, pool, folder).run(first, spans)
            if pool is not None:
                pool.wait_written()


def _take(spans: Iterator[RowSpan], count: int) -> Iterator[RowSpan]:
    for _ in range(count):
        span = next(spans, None)
        if span is None:
            return
        yield span


class _Settlement:
    """Settles spans in order: takes results, joins spans that were cut inside a row."""

    def __init__(
        self,
        reader: RunReader,
        ledger: Ledger,
        context: Context,
        job: SpanJob,
        taker: SpanTaker,
        pool: SpanPool | None,
        folder: str | None,
    ) -> None:
        self._reader, self._ledger, self._context = reader, ledger, context
        self._job, self._taker, self._pool, self._folder = job, taker, pool, folder
        self._at = reader.record.data_start
        self._several = reader.record.objects is not None

    def run(self, first: list[RowSpan], rest: Iterator[RowSpan]) -> None:
        """Settle all spans."""
        waiting = deque(first)
        submitted: deque[tuple[RowSpan, int]] = deque()
        wrong = 0

        def following() -> RowSpan | None:
            return waiting.popleft() if waiting else next(rest, None)

        while True:
            while self._pool is not None and len(submitted) < self._pool.capacity:
                more = following()
                if more is None:
                    break
                submitted.append((more, self._pool.submit(more)))
            if self._pool is None:
                alone = following()
                if alone is None:
                    return
                span, settled = alone, self._settle_here(alone)
            elif submitted:
                span, number = submitted.popleft()
                settled = self._settle_result(self._pool, span, number)
            else:
                return
            while not settled:
                wrong += 1
                if self._pool is not None and submitted:
                    after, number = submitted.popleft()
                    self._pool.drop(number)
                else:
                    after = following() or RowSpan(span.start)
                if wrong > MAX_WRONG_CUTS:
                    # This text deceives: the rest of it is read in one pass.
                    for _, number in submitted:
                        if self._pool is not None:
                            self._pool.drop(number)
                    self._read_here(replace(span, end=None))
                    return
                span = replace(span, end=after.end)
                settled = self._settle_here(span)

    def _settle_result(self, pool: SpanPool, span: RowSpan, number: int) -> bool:
        """Wait for a worker's result, and take it; False if the span ends inside a row."""
        result = pool.wait(number)
        self._taker.check_stop()
        if result is _Unsettled.CUT:
            pool.drop(number)
            return False
        if isinstance(result, _Result):
            output = _RemoteOutput(pool, number, result)
            if self._taker.take(result.summary, output, self._at):
                pool.drop(number)
                self._advance(span, result.end)
                return True
        pool.drop(number)
        return self._read_here(span)

    def _settle_here(self, span: RowSpan) -> bool:
        """Read a span in this process; False if it ends inside a row."""
        if span.end is None:
            return self._read_here(span)
        output = SpanOutput(self._folder, deflate=self._job.deflate)
        try:
            self._taker.check_stop()
            try:
                result = _work(self._reader, self._ledger, self._context, self._job, span, output)
            except CutInsideRowError:
                return False
            except Exception:  # noqa: BLE001 - it is read again, and raises again
                return self._read_here(span)
            if not self._taker.take(result.summary, output, self._at):
                return self._read_here(span)
            self._advance(span, result.end)
            return True
        finally:
            output.close()

    def _read_here(self, span: RowSpan) -> bool:
        """Have the taker read a span from the known position; True, unless it raises."""
        start = self._at
        span = replace(span, start=start)
        batches = iter_row_batches(
            self._reader,
            self._ledger,
            self._context,
            piece_bytes=self._job.piece_bytes,
            span=span,
        )
        with contextlib.closing(batches):
            tracked = _Tracked(batches, start)
            self._taker.read(iter(tracked))
        self._at = tracked.end
        return True

    def _advance(self, span: RowSpan, end: Cursor) -> None:
        at = self._at
        line = 1 if self._several else at.line + end.line - span.start.line
        self._at = Cursor(at.byte + end.byte - span.start.byte, line)


def _work(
    reader: RunReader,
    ledger: Ledger,
    context: Context,
    job: SpanJob,
    span: RowSpan,
    output: SpanOutput,
    each: Callable[[], None] = lambda: None,
) -> _Result:
    def must_end() -> bool:
        each()
        return False

    batches = iter_row_batches(
        reader, ledger, context, piece_bytes=job.piece_bytes, must_end=must_end, span=span
    )
    with contextlib.closing(batches):
        tracked = _Tracked(batches, span.start)
        summary = job.work(reader, iter(tracked), output)
    output.finish()
    return _Result(summary, tracked.end, output.size, output.length, output.crc)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a worker needs to begin."""

    record: RunRecord
    job: SpanJob
    make_context: Callable[[], Context]
    folder: str | None


class SpanPool:
    """Processes that read spans. They keep the output of each until it is their turn to write."""

    def __init__(self, count: int, setup: _Setup) -> None:
        # A fork needs no imports again, but copies locks that other threads hold.
        can_fork = sys.platform == "linux" and threading.active_count() == 1
        start: Any = multiprocessing.get_context("fork" if can_fork else "spawn")
        self.capacity = count * UNSETTLED_SPANS
        self._processes: list[Any] = []
        self._pipes: list[connection.Connection] = []
        self._unsettled = [0] * count
        self._owner: dict[int, int] = {}
        self._results: dict[int, _Result | _Unsettled] = {}
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

    def wait(self, number: int) -> _Result | _Unsettled:
        """Wait until a span was read."""
        while number not in self._results:
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
        if kind == "read" and number in self._owner:
            self._results[number] = content
        elif kind == "written":
            self._unwritten -= 1
            self._write_error = self._write_error or content
        return bool(kind == "bytes" and number == fetched)


@dataclass(frozen=True, slots=True)
class _RemoteOutput:
    """Output of a span that a worker keeps."""

    _pool: SpanPool
    _number: int
    _result: _Result

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
    """Block SIGINT, so that a process started meanwhile inherits that until it ignores SIGINT."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The code below runs in worker processes.


def _work_for_pool(
    pipe: connection.Connection, inherited: tuple[connection.Connection, ...], setup: _Setup
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for other in inherited:
        # Held open here, the end of the parent would go unnoticed.
        other.close()
    with contextlib.suppress(EOFError, BrokenPipeError), rare_gc():
        _SpanWorker(pipe, setup).run()


class _SpanWorker:
    """Reads spans that come through a pipe, and looks for messages after each batch."""

    def __init__(self, pipe: connection.Connection, setup: _Setup) -> None:
        self._pipe = pipe
        self._job, self._folder = setup.job, setup.folder
        self._context = setup.make_context()
        self._reader = RunReader(setup.record)
        # The listing of several objects is not read here: a span has its objects.
        self._ledger = self._context.ledger(setup.record.run)
        self._queue: deque[tuple[int, RowSpan]] = deque()
        self._outputs: dict[int, SpanOutput] = {}

    def run(self) -> None:
        """Work until the pipe is closed, which raises `EOFError`."""
        while True:
            while not self._queue or self._pipe.poll():
                self._obey(self._pipe.recv())
            number, span = self._queue.popleft()
            output = SpanOutput(self._folder, deflate=self._job.deflate)
            self._outputs[number] = output
            self._pipe.send(("read", number, self._read(span, output)))

    def _read(self, span: RowSpan, output: SpanOutput) -> _Result | _Unsettled:
        try:
            return _work(
                self._reader, self._ledger, self._context, self._job, span, output, self._obey_all
            )
        except CutInsideRowError:
            return _Unsettled.CUT
        except (EOFError, BrokenPipeError):
            raise
        except Exception:  # noqa: BLE001 - the parent reads the span itself, and meets it again
            return _Unsettled.FAILED

    def _obey_all(self) -> None:
        while self._pipe.poll():
            self._obey(self._pipe.recv())

    def _obey(self, message: tuple[Any, ...]) -> None:
        kind, number, *rest = message
        if kind == "read":
            self._queue.append((number, rest[0]))
        elif kind == "write":
            self._pipe.send(("written", number, self._write(number, *rest)))
        elif kind == "fetch":
            self._pipe.send(("bytes", number, None))
            for piece in self._outputs[number].pieces():
                self._pipe.send_bytes(piece)
        else:
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
