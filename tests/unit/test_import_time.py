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


@pytest.mark.parametrize(
    ("start", "slow"),
    [
        ("ddbload.cli.main", {"botocore", "ssl"}),
        ("ddbload.runs.run_import", {"botocore", "click"}),
        *(
            (f"lambdas.{name}", {"click", "ddbload.runs.worker_pool"})
            for name in ("preflight", "import_chunk", "report", "on_upload")
        ),
    ],
)
def test_nobody_waits_for_what_may_not_be_used(start, slow):
    found = modules(start)
    assert start in found
    assert found & (ANYWHERE | slow) == set()
