"""Fixtures of the proof."""

from __future__ import annotations

import pytest

from localaws import LocalAws
from tests.proof.emulated import Cloud


@pytest.fixture(scope="module")
def aws():
    hasty = ("--retry-seconds", "0.2", "--state-retry-seconds", "0.5")
    with LocalAws("--enforce-iam", "--concurrency", "2", *hasty) as aws:
        yield aws


@pytest.fixture
def cloud(aws, tmp_path):
    cloud = Cloud(aws, tmp_path)
    assert cloud.things() == {}
    return cloud
