"""A run into a FIFO queue imports chunk after chunk, and ends at the first that fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.options import Options
from ddbload.contracts.results import RowCounts
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


def record(*, is_ordered: bool) -> Any:
    return SimpleNamespace(
        run="r",
        table=SimpleNamespace(is_ordered=is_ordered),
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


@pytest.mark.parametrize(("is_ordered", "imported"), [(True, 1), (False, 3)])
def test_run_ends_at_the_first_failed_chunk_if_rows_have_an_order(
    monkeypatch, is_ordered, imported
):
    assert RowTooLong.chunk_local
    worker = Worker()
    monkeypatch.setattr(run_import, "ChunkWorker", lambda *_: worker)
    where = (progress(), context(), SimpleNamespace(), record(is_ordered=is_ordered))
    assert run_import._import_tasks(tasks(), 1, *where)
    assert len(worker.tasks) == imported


@pytest.mark.parametrize("is_ordered", [True, False])
def test_one_worker_imports_all_chunks_if_rows_have_an_order(monkeypatch, is_ordered):
    chosen = []

    class Pool:
        def __init__(self, count: int, *_: Any, **__: Any) -> None:
            chosen.append(count)

        def __class_getitem__(cls, _: object) -> type[Pool]:
            return cls

        def map_as_done(self, tasks: deque[ImportTask], _: Any) -> Iterator[Any]:
            yield from ((task, RowTooLong("row 1 has no end")) for task in tasks)

    monkeypatch.setattr(run_import, "ChunkWorker", Worker)
    monkeypatch.setattr("ddbload.reading.processes.ProcessPool", Pool)
    where = (progress(), context(), SimpleNamespace(), record(is_ordered=is_ordered))
    run_import._import_tasks(tasks(), 2, *where)
    assert chosen == ([] if is_ordered else [2])
