"""What tests of experiments share."""

from __future__ import annotations

import pytest

from lab.experiment import Setup


@pytest.fixture
def setup_of(tmp_path):
    """Function that makes the setup of a small run."""

    def make(size, latency=0.0, seed=1):
        return Setup(size, latency, seed, tmp_path)

    return make
