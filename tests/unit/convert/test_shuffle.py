"""External shuffle of lines."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ddbload.convert import sharded_sink
from ddbload.convert.sharded_sink import Shuffle


def shuffled(folder: Path, lines: list[str], *, seed: int = 1, at_once: int = 7) -> list[bytes]:
    made = Shuffle(folder, random.Random(seed))
    for start in range(0, len(lines), at_once):
        made.add(lines[start : start + at_once])
    assert made.bytes == sum(len(line) + 1 for line in lines)
    found = [line for some in made.shuffled() for line in some]
    assert list(folder.iterdir()) == []
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make buckets so small that lines are dealt out to files more than once."""
    monkeypatch.setattr(sharded_sink, "BUFFER_BYTES", 512)
    monkeypatch.setattr(sharded_sink, "BUCKET_BYTES", 16)
    monkeypatch.setattr(sharded_sink, "_READ_BYTES", 10)


LINES = [f"line {number}" + "é" * (number % 5) for number in range(1500)]
OCTETS = [line.encode().decode("latin-1") for line in LINES]


@pytest.mark.usefixtures("small")
def test_shuffle_yields_each_line_once_when_it_uses_files(tmp_path: Path) -> None:
    found = shuffled(tmp_path, OCTETS[:400])
    assert sorted(found) == sorted(line.encode() for line in LINES[:400])


def test_shuffle_order_depends_on_seed_alone(tmp_path: Path) -> None:
    first = shuffled(tmp_path, OCTETS)
    assert shuffled(tmp_path, OCTETS, at_once=100) == first
    assert shuffled(tmp_path, OCTETS, seed=2) != first
