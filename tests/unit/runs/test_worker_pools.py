"""Pools of worker processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from functools import partial

import pytest

from ddbload.aws.clients import AwsSettings
from ddbload.contracts.chunks import Chunk
from ddbload.contracts.states import ImportTask
from ddbload.errors import RunNotFound, WorkerDied
from ddbload.reading.processes import ProcessPool
from ddbload.runs.local_runs import LocalSettings
from ddbload.runs.run_import import make_chunk_worker


def work(task):
    """Return a task, or kill the process if it is negative."""
    if task < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return task * 2


def make_worker(_should_stop, _report):
    return work


@pytest.mark.parametrize("tasks", [1, 2])
def test_process_pool_leaves_no_process_when_closed(tmp_path, tasks, capfd):
    """A worker that is still starting must not find its locks gone."""
    settings = LocalSettings(str(tmp_path), AwsSettings(region="eu-west-1"))
    pool = ProcessPool(2, partial(make_chunk_worker, settings, "none"), tasks_each=2)
    chunks = deque(ImportTask("none", (Chunk(number, 0, 1, 1),)) for number in range(tasks))
    found = [result for _, result in pool.map_as_done(chunks, lambda: False)]
    assert [type(each) for each in found] == [RunNotFound] * tasks
    assert multiprocessing.active_children() == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("tasks", [range(1), range(20)])
def test_process_pool_leaves_no_process_when_left_early(tasks, capfd):
    with ProcessPool(2, make_worker, tasks_each=3) as pool:
        results = pool.map_in_order(tasks)
        assert next(results) == (0, 0)
    assert multiprocessing.active_children() == []
    assert capfd.readouterr().err == ""


def test_results_are_in_the_order_of_tasks():
    with ProcessPool(2, make_worker, tasks_each=3) as pool:
        assert list(pool.map_in_order(range(20))) == [(n, 2 * n) for n in range(20)]


def test_process_that_is_killed_is_a_named_error():
    with ProcessPool(2, make_worker, tasks_each=3) as pool:
        results = pool.map_in_order([1, -1, 2])
        with pytest.raises(WorkerDied, match="try again"):
            list(results)


def test_tasks_of_a_process_that_is_killed_have_a_named_error():
    pool = ProcessPool(2, make_worker, tasks_each=2, advice="resume the run")
    found = dict(pool.map_as_done(deque([-1]), lambda: False))
    assert isinstance(found[-1], WorkerDied)
    assert "resume the run" in found[-1].message
