"""Worker processes, with nothing to do: there is no such run."""

from __future__ import annotations

import multiprocessing

import pytest

from ddbload.aws_http.clients import AwsSettings
from ddbload.contracts import Chunk, ImportTask
from ddbload.pipeline.local import LocalSettings
from ddbload.pipeline.processes import Processes


@pytest.mark.parametrize("tasks", [1, 2])
def test_none_is_left_when_they_are_closed(tmp_path, tasks, capfd):
    """Not even one that is still starting: it would find gone what it is to be given."""
    settings = LocalSettings(str(tmp_path), AwsSettings(region="eu-west-1"))
    crew = Processes(2, settings, "none", should_stop=lambda: False, progress=lambda _: None)
    for number in range(tasks):
        crew.submit(ImportTask("none", Chunk(number, 0, 1, 1), None))
    crew.close()
    assert multiprocessing.active_children() == []
    assert capfd.readouterr().err == ""
