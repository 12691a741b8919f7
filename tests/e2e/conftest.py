"""The same servers and folders as the command line's tests have."""

from __future__ import annotations

import signal

import pytest

from tests.cli.conftest import account, console, dynamodb, s3, s3_endpoint, services

__all__ = ["account", "console", "dynamodb", "s3", "s3_endpoint", "services"]


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heeded():
    """Also where the tests run in the background, and would hand on that it is not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
