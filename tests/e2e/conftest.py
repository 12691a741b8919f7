"""Fixtures: the servers and folders of the tests of the command line."""

from __future__ import annotations

from tests.cli.conftest import account, console, dynamodb, s3, services

__all__ = ["account", "console", "dynamodb", "s3", "services"]
