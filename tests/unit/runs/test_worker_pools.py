"""Pools of worker processes for a run that does not exist."""

from __future__ import annotations

import multiprocessing

import pytest

from ddbload.aws.boto_clients import AwsSettings
from ddbload.contracts.chunks import Chunk
from ddbload.contracts.states import ImportTask
from ddbload.runs.local_settings import LocalSettings
from ddbload.runs.process_pool import ProcessPool


@pytest.mark.parametrize("tasks", [1, 2])
def test_process_pool_leaves_no_process_when_closed(tmp_path, tasks, capfd):
    """A worker that is still starting must not find its locks gone."""
    settings = LocalSettings(str(tmp_path), AwsSettings(region="eu-west-1"))
    crew = ProcessPool(2, settings, "none", should_stop=lambda: False, progress=lambda _: None)
    for number in range(tasks):
        crew.submit(ImportTask("none", Chunk(number, 0, 1, 1), None))
    crew.close()
    assert multiprocessing.active_children() == []
    assert capfd.readouterr().err == ""
