from __future__ import annotations

import json
import subprocess
import sys

import pytest

SHOW_MODULES = "import ddbload.cli.commands, json, sys; print(json.dumps(sorted(sys.modules)))"


@pytest.fixture(scope="module")
def modules():
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES], check=True, capture_output=True, text=True
    )
    return set(json.loads(shown.stdout))


@pytest.mark.parametrize("slow", ["boto3", "botocore", "rich"])
def test_the_command_line_starts_without(modules, slow):
    assert "ddbload.cli.commands" in modules
    assert slow not in modules
