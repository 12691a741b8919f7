"""A run into a FIFO queue imports chunk after chunk, and ends at the first that fails."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.options import Options
from ddbload.contracts.row_counts import RowCounts
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
def test_run_ends_at_the_first_failed_chunk_if_rows_have_an_order(is_ordered, imported):
    assert RowTooLong.chunk_local
    pool, totals = Pool(), progress()
    assert run_import._run_tasks(tasks(), pool, totals, context(), record(is_ordered=is_ordered))
    assert len(pool.submitted) == imported


@pytest.mark.parametrize("is_ordered", [True, False])
def test_one_worker_imports_all_chunks_if_rows_have_an_order(monkeypatch, is_ordered):
    chosen = []

    def made(name: str) -> Any:
        def make(*_: Any, **__: Any) -> Pool:
            chosen.append(name)
            return Pool()

        return make

    monkeypatch.setattr(run_import, "InProcessPool", made("one"))
    monkeypatch.setattr("ddbload.runs.process_pool.ProcessPool", made("several"))
    totals = progress()
    run_import._import_tasks(
        tasks(), 2, totals, context(), SimpleNamespace(), record(is_ordered=is_ordered)
    )
    assert chosen == ["one" if is_ordered else "several"]
