"""Shared sink, and generated files to send to it."""

from __future__ import annotations

import pytest

from bench.checksum import expected_checksum
from bench.rounds import Scenario, SinkProcess
from bench.shapes import SHAPES


@pytest.fixture(scope="package")
def sink_process(tmp_path_factory):
    """Sink process. Each test resets it."""
    process = SinkProcess(tmp_path_factory.mktemp("sink"))
    yield process
    process.close()


@pytest.fixture(params=[True, False], ids=["tls", "plain"])
def scenario(request):
    return Scenario(SHAPES["quoted"], request.param, 0.0)


@pytest.fixture
def make_file(tmp_path):
    """Function that generates a file and returns its path and expected checksum."""

    def make(shape, rows, seed=1):
        path = tmp_path / f"{shape.name}-{rows}-{seed}{shape.suffix}"
        shape.write(path, rows, seed)
        return path, expected_checksum(path, shape)

    return make
