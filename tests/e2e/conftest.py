"""The same servers and folders as the command line's tests have."""

from __future__ import annotations

from tests.cli.conftest import account, console, dynamodb, s3, s3_endpoint, services

__all__ = ["account", "console", "dynamodb", "s3", "s3_endpoint", "services"]
