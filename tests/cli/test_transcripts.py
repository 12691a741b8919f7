"""Transcripts of commands and their output. UPDATE_TRANSCRIPTS=1 writes them anew."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import Console
from tests.cli.transcript import Services, replay

FOLDER = Path(__file__).with_name("transcripts")
LONGEST_FIRST = sorted(FOLDER.glob("*.txt"), key=lambda path: -path.stat().st_size)


@pytest.fixture(scope="module")
def replays(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    account: dict[str, str],
    forked: Path,
    dynamodb: Any,
    s3: Any,
) -> Iterator[dict[Path, Future[str]]]:
    """Replay the selected transcripts in parallel: a command uses only one core."""

    def run(path: Path) -> str:
        folder = tmp_path_factory.mktemp(path.stem) / "folder"
        folder.mkdir()
        console = Console(folder, account, forked)
        now = replay(path.read_text("utf-8"), Services(console, dynamodb, s3))
        assert console.leftovers() == []
        return now

    wanted = {item.callspec.params["path"] for item in asked_for(request)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {path: pool.submit(run, path) for path in LONGEST_FIRST if path in wanted}


def asked_for(request: pytest.FixtureRequest) -> list[pytest.Function]:
    return [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_transcript_replays_unchanged
    ]


@pytest.mark.parametrize("path", LONGEST_FIRST, ids=lambda path: path.stem)
def test_transcript_replays_unchanged(path, replays):
    expected = path.read_text("utf-8")
    now = replays[path].result()
    if os.environ.get("UPDATE_TRANSCRIPTS"):
        path.write_text(now, "utf-8")
    elif now != expected:
        lines = unified_diff(expected.splitlines(), now.splitlines(), path.name, "now", lineterm="")
        pytest.fail("\n".join(lines), pytrace=False)


def test_each_table_belongs_to_one_transcript():
    """Transcripts are replayed at the same time, on the same server."""
    lines = [line for path in LONGEST_FIRST for line in path.read_text("utf-8").splitlines()]
    tables = Counter(line.split()[2] for line in lines if line.startswith("% table "))
    assert {table: count for table, count in tables.items() if count > 1} == {}
