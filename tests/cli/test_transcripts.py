"""What is typed and what is shown, word for word. UPDATE_TRANSCRIPTS=1 writes them anew."""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.cli.transcript import replay

FOLDER = Path(__file__).with_name("transcripts")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_it_reads_as_written(path, services):
    expected = path.read_text("utf-8")
    now = replay(expected, services)
    if os.environ.get("UPDATE_TRANSCRIPTS"):
        path.write_text(now, "utf-8")
    elif now != expected:
        lines = unified_diff(expected.splitlines(), now.splitlines(), path.name, "now", lineterm="")
        pytest.fail("\n".join(lines), pytrace=False)
