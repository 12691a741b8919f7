"""Fixtures of the trials, which are collected only with DDBLOAD_TRIALS=1."""

from __future__ import annotations

import os

from tests.e2e.conftest import account, console, dynamodb, s3, services

__all__ = ["account", "console", "dynamodb", "s3", "services"]

collect_ignore_glob = [] if os.environ.get("DDBLOAD_TRIALS") else ["test_*.py", "*/test_*.py"]
