"""Fixtures: the servers and folders of the tests of the command line, and the command itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import account, console, dynamodb, s3, s3_endpoint, services
from tests.cli.console import PROGRAM

__all__ = ["account", "console", "dynamodb", "forked", "s3", "s3_endpoint", "services"]


@pytest.fixture(scope="session")
def forked() -> Path:
    """Return the installed command: these tests interrupt it, which a fork does not survive."""
    return PROGRAM
