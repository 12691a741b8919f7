"""A chunk that fails because of its own rows does not end the run."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.options import Options
from ddbload.contracts.results import RowCounts
from ddbload.contracts.states import ImportTask
from ddbload.errors import RowTooLong
from ddbload.runs import run_import


class Pool:
    """A pool whose first task fails because of its rows."""

    size = 1

    def __init__(self) -> None:
        self.submitted: list[ImportTask] = []
        self.answered = 0

    def submit(self, task: ImportTask) -> None:
        self.submitted.append(task)

    def wait(self, _: float) -> list[Any]:
        waiting = self.submitted[self.answered :]
        self.answered = len(self.submitted)
        return [(task, RowTooLong("row 1 has no end")) for task in waiting]

    def stop(self) -> None:
        """Nothing runs between two calls."""

    close = stop


def record() -> Any:
    return SimpleNamespace(
        run="r",
        payload=SimpleNamespace(options=Options()),
        most_rows_besides=lambda _: 0,
    )


def context() -> Any:
    ledger = SimpleNamespace(put_failure=lambda _: None)
    return SimpleNamespace(
        ledger=lambda _: ledger, should_stop=lambda: False, now=lambda: 0.0, progress=None
    )


def progress() -> Any:
    settled = SimpleNamespace(rows=RowCounts(), bytes=0)
    return SimpleNamespace(
        settled=settled, finished=lambda _: None, failed=lambda _: None, progress=None
    )


def tasks() -> deque[ImportTask]:
    return deque(ImportTask("r", Chunk(n, n * 10, n * 10 + 10, 1)) for n in range(3))


def test_run_imports_all_chunks_when_one_fails_because_of_its_rows():
    assert RowTooLong.chunk_local
    pool = Pool()
    assert run_import._run_tasks(tasks(), pool, progress(), context(), record())
    assert len(pool.submitted) == 3
