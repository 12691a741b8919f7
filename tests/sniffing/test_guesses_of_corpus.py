"""How often the delimiter of the corpus' files is guessed: these numbers may only rise."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import pytest

from ddbload.contracts.options import Options
from ddbload.contracts.source import AUTO, Source
from ddbload.errors import DdbloadError
from ddbload.reading.header import read_header
from ddbload.reading.open_sources import open_decoded
from ddbload.rows.readings import Doubt, Reading
from ddbload.source.local_file import open_local
from ddbload.steps.prepare import detect_format
from tests.sniffing.corpus import SAMPLES, Sample
from tests.sniffing.polluted import polluted

WRONG = {"colon", "latin header", "one column of prose", "delimiter '\\\\t'"}
"""Refused, with a hint, but guessed wrong."""
Guess = str | bool | None


def guess(path: Path, keys: Collection[str] = ()) -> tuple[Guess, DdbloadError | None]:
    """Guess a file's delimiter; also return the error that refuses the file.

    `keys`: columns that the header should have.
    """
    source = Source(format=AUTO, delimiter=AUTO, encoding=AUTO, path=str(path))
    with closing(open_local(str(path))) as raw:
        try:
            found = detect_format(raw, source, keys)
        except DdbloadError as error:
            return False, error
        delimiter = found.source.delimiter if found.source.kind.has_columns else False
        try:
            file = open_decoded(raw, found.source)
            read_header(file, found.source, Options().row_limit, doubt=found.doubt)
        except DdbloadError as error:
            return delimiter, error
    return delimiter, None


def is_right(sample: Sample, found: Guess) -> bool:
    """Tell whether a guess reads the file as a person does."""
    if sample.delimiter is None:
        return found is None or (isinstance(found, str) and found not in sample.text)
    return found == sample.delimiter


def write_files(samples: list[Sample], folder: Path) -> list[Path]:
    """Write the files, each to a folder of its own, since the name is evidence."""
    paths = []
    for number, sample in enumerate(samples):
        place = folder / str(number)
        place.mkdir()
        path = place / sample.file_name
        path.write_bytes(sample.data)
        paths.append(path)
    return paths


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


def test_lines_before_the_header_are_skipped_or_asked_for(tmp_path: Path) -> None:
    titled = [sample for sample in (*SAMPLES, *polluted()) if sample.skip_lines]
    for sample, path in zip(titled, write_files(titled, tmp_path), strict=True):
        skipped, error = best_source(path)
        lines = sample.skip_lines
        joined = skipped.columns is not None and skipped.skip_lines == lines + 1
        assert skipped.skip_lines == lines or joined, (sample.name, error)


def test_single_quotes_are_found(tmp_path: Path) -> None:
    quoted = [sample for sample in SAMPLES if sample.quote == "'"]
    for path in write_files(quoted, tmp_path):
        assert best_source(path)[0].quote == "'"


def best_source(path: Path) -> tuple[Source | Reading, Doubt | None]:
    """Return how a file is read, or would be read best."""
    source = Source(format=AUTO, delimiter=AUTO, encoding=AUTO, path=str(path))
    with closing(open_local(str(path))) as raw:
        found = detect_format(raw, source, ())
    return (found.source if found.doubt is None else found.doubt.readings[0]), found.doubt
