"""How often the delimiter of the corpus' files is guessed: these numbers may only rise."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.dialects import guess, is_right, write_files
from tests.sniffing.corpus import SAMPLES, Sample
from tests.sniffing.polluted import polluted

WRONG = {"colon", "one column of prose", "delimiter '\\\\t'"}
"""Refused, with a hint, but guessed wrong."""


@pytest.mark.parametrize("keys", [[], ["no such column"]], ids=["no keys", "other keys"])
@pytest.mark.parametrize("samples", [SAMPLES, list(polluted())], ids=["own", "polluted"])
def test_files_are_guessed_right_or_refused(
    tmp_path: Path, samples: list[Sample], keys: list[str]
) -> None:
    wrong, silent = set(), set()
    for sample, path in zip(samples, write_files(samples, tmp_path), strict=True):
        found, error = guess(path, keys)
        if not is_right(sample, found):
            wrong.add(sample.name)
            silent |= {sample.name} if error is None else set()
    assert wrong <= WRONG
    # Rows of this one with a comma are rejected.
    assert silent <= {"one column of prose"}


def test_refusals_say_how_many_lines_come_before_the_header(tmp_path: Path) -> None:
    titled = [sample for sample in (*SAMPLES, *polluted()) if sample.skip_lines]
    for sample, path in zip(titled, write_files(titled, tmp_path), strict=True):
        _, error = guess(path)
        assert error is not None, sample.name
        assert f"--skip-lines {sample.skip_lines}" in str(error), sample.name


def test_refusal_of_apostrophes_names_the_quote(tmp_path: Path) -> None:
    quoted = [sample for sample in SAMPLES if sample.quote == "'"]
    for path in write_files(quoted, tmp_path):
        _, error = guess(path)
        assert '--quote "\'"' in str(error)
