"""Counts and marks of a comparison, by a comparison of plain dicts."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ddbload.verification import compare_digests
from ddbload.verification.compare_digests import (
    DIFFERENT_MARK,
    EXTRA_MARK,
    MISSING_MARK,
    SAMPLED_MARK,
    DigestSpool,
    KeyCounts,
    item_marks,
)

Rows = list[tuple[int, int]]
"""Key and content of each item."""


def digest(number: int) -> bytes:
    return hashlib.blake2s(str(number).encode(), digest_size=16).digest()


@pytest.fixture(autouse=True)
def close_files(monkeypatch) -> Iterator[None]:
    """Close the files of spools and marks after each test."""
    with ExitStack() as stack:
        open_file = compare_digests.tempfile.TemporaryFile

        def opened() -> Any:
            return stack.enter_context(open_file())

        monkeypatch.setattr(compare_digests.tempfile, "TemporaryFile", opened)
        yield


def spool_of(rows: Rows) -> DigestSpool:
    spool = DigestSpool()
    spool.add(digest(key) + digest(content) for key, content in rows)
    spool.finish()
    return spool


def compared(file: Rows, table: Rows) -> tuple[KeyCounts, bytes, bytes]:
    counts, marks, extra = KeyCounts(), item_marks(len(file)), item_marks(len(table))
    compare_digests.compare_digests(spool_of(file), spool_of(table), counts, marks, extra, None)
    return counts, marks[: len(file)], extra[: len(table)]


@pytest.mark.parametrize(("group", "part"), [(65_536, 400_000), (7, 400_000), (7, 2)])
def test_comparison_finds_what_dicts_find(monkeypatch, group, part):
    """In one group or many, and with partitions that do not fit in memory."""
    monkeypatch.setattr(compare_digests, "GROUP_ITEMS", group)
    monkeypatch.setattr(compare_digests, "PARTITION_ITEMS", part)
    rng = random.Random(group + part)
    file = [(rng.randrange(900), rng.randrange(3)) for _ in range(1200)]
    table = {key: rng.randrange(3) for key in rng.sample(range(1000), 700)}
    counts, marks, extra = compared(file, list(table.items()))
    contents: dict[int, set[int]] = {}
    for key, content in file:
        contents.setdefault(key, set()).add(content)
    last = {key: number for number, (key, _) in enumerate(file)}
    missing = contents.keys() - table.keys()
    different = {key for key in contents.keys() & table.keys() if table[key] not in contents[key]}
    assert counts == KeyCounts(
        keys=len(contents),
        repeated=sum(1 for key in contents if [each for each, _ in file].count(key) > 1),
        compared=len(contents),
        equal=len(contents) - len(missing) - len(different),
        missing=len(missing),
        different=len(different),
        extra=len(table.keys() - contents.keys()),
    )
    marked = {number: mark for number, mark in enumerate(marks) if mark}
    assert marked == {last[key]: MISSING_MARK for key in missing} | {
        last[key]: DIFFERENT_MARK for key in different
    }
    assert [bool(mark) for mark in extra] == [key not in contents for key in table]
    assert set(extra) <= {0, EXTRA_MARK}


@pytest.mark.parametrize(("sample", "wanted"), [(10, 10), (0.1, 30), (0.0001, 1), (500, 300)])
def test_sample_has_wanted_number_of_keys(sample, wanted):
    """A key of several items counts once, and a tiny share is one key and not none."""
    file = [(n % 300, n) for n in range(900)]
    spool, marks = spool_of(file), item_marks(900)
    last = compare_digests.choose_sample(spool, sample, marks)
    chosen = [n for n, mark in enumerate(marks[:900]) if mark == SAMPLED_MARK]
    keys = {n % 300 for n in chosen}
    assert len(chosen) == len(keys) == wanted
    counts, found = KeyCounts(), spool_of([(key, key + 600) for key in keys])
    compare_digests.compare_digests(spool, found, counts, item_marks(900), item_marks(900), last)
    assert (counts.compared, counts.equal, counts.missing, counts.extra) == (wanted, wanted, 0, 0)
