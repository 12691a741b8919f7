"""How often the delimiter of the corpus' files is guessed: these numbers may only rise."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.dialects import guess, is_right, write_files
from tests.sniffing.corpus import SAMPLES, Sample
from tests.sniffing.polluted import polluted

WRONG = {"colon", "one column of prose", "delimiter '\\\\t'"}
"""Refused, with a hint, but guessed wrong."""


@pytest.mark.parametrize("samples", [SAMPLES, list(polluted())], ids=["own", "polluted"])
def test_files_are_guessed_right_or_refused(tmp_path: Path, samples: list[Sample]) -> None:
    wrong, silent = set(), set()
    for sample, path in zip(samples, write_files(samples, tmp_path), strict=True):
        found, error = guess(path)
        if not is_right(sample, found):
            wrong.add(sample.name)
            silent |= {sample.name} if error is None else set()
    assert wrong <= WRONG
    # Rows of this one with a comma are rejected.
    assert silent <= {"one column of prose"}
