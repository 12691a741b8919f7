"""A chunk that fails because of its own rows does not end the run."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.options import Options
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.states import ImportTask
from ddbload.errors import RowTooLong
from ddbload.runs import run_import


class Worker:
    """A worker whose tasks fail because of their rows."""

    def __init__(self, *_: Any) -> None:
        self.tasks: list[ImportTask] = []

    def __call__(self, task: ImportTask) -> RowTooLong:
        self.tasks.append(task)
        return RowTooLong("row 1 has no end")

    def close(self) -> None:
        """Nothing is open."""


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


def test_run_imports_all_chunks_when_one_fails_because_of_its_rows(monkeypatch):
    assert RowTooLong.chunk_local
    worker = Worker()
    monkeypatch.setattr(run_import, "ChunkWorker", lambda *_: worker)
    assert run_import._import_tasks(tasks(), 1, progress(), context(), SimpleNamespace(), record())
    assert len(worker.tasks) == 3
