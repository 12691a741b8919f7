"""What a start does not wait for. Time itself is not tested: modules that are slow to load are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SHOW_MODULES = "import {}, json, sys; print(json.dumps(sorted(sys.modules)))"


def modules(start: str) -> set[str]:
    """What is loaded by importing a module."""
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES.format(start)],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(json.loads(shown.stdout))


ANYWHERE = {"boto3", "botocore.session", "urllib3", "rich", "asyncio", "multiprocessing"}
"""botocore itself, though next to nothing of it, is loaded by Powertools."""


MAX_LEDGER_MODULES = 50
"""Modules and packages of ddbload that a function loads which reads and writes the ledger only."""


@pytest.mark.parametrize(("function", "step"), [("report", "report"), ("on_upload", "executions")])
def test_ledger_function_loads_few_modules(function, step):
    loaded = {name for name in modules(f"lambdas.{function}") if name.startswith("ddbload.")}
    assert f"ddbload.steps.{step}" in loaded
    assert len(loaded) <= MAX_LEDGER_MODULES, sorted(loaded)


@pytest.mark.parametrize(
    ("start", "slow"),
    [
        ("ddbload.cli.commands", {"botocore", "ssl"}),
        ("ddbload.runs.run_import", {"botocore", "click"}),
        *(
            (f"lambdas.{name}", {"click", "ddbload.runs.run_import"})
            for name in ("preflight", "import_chunk", "report", "on_upload")
        ),
    ],
)
def test_nobody_waits_for_what_may_not_be_used(start, slow):
    found = modules(start)
    assert start in found
    assert found & (ANYWHERE | slow) == set()
