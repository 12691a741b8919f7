"""`max_rejects: "5%"` fails a run by all of its rows: no worker ends one that would succeed."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.options import LEAST_ROWS_OF_SHARE, RejectLimit
from ddbload.contracts.results import FAILED, SUCCEEDED, SUCCEEDED_WITH_REJECTS
from tests.unit.steps.world import World


def lines(*parts: tuple[int, str]) -> bytes:
    """Rows with numbers (`1`), and rows that are rejected (`x`)."""
    cells = [cell for count, cell in parts for _ in range(count)]
    return b"id,n\n" + b"".join(b"k%05d,%s\n" % row for row in enumerate(map(str.encode, cells)))


def world(data: bytes, share: str, **options: Any) -> World:
    return World(data, types={"n": "N"}, options={"max_rejects": share, **options})


@pytest.mark.parametrize("seed", range(40))
def test_share_is_compared_exactly(seed):
    rng = random.Random(seed)
    percent = rng.choice((0, 100, 5, 0.1, 33.333333, 1e-6, round(rng.random() * 100, 6)))
    limit = RejectLimit(7, percent)
    read = rng.choice((0, 1, 100, 10**9, rng.randrange(10**6)))
    for rejected in {0, read, rng.randrange(read + 1), int(read * percent / 100)}:
        exact = Fraction(rejected) > Fraction(str(percent)) / 100 * read
        assert limit.exceeded(rejected, read) == exact


def test_bad_rows_at_the_beginning_fail_no_run_within_its_share():
    it = world(lines((1500, "x"), (30_000, "1")), "5%", chunk_bytes=30_000)
    report = it.run()
    assert (report.status, report.rows.rejected) == (SUCCEEDED_WITH_REJECTS, 1500)


@pytest.mark.parametrize(
    ("bad", "share", "error"),
    [
        (0, "0%", None),
        (1, "0%", errors.TooManyRejects),
        (5, "5%", None),
        (6, "5%", errors.TooManyRejects),
        (1, "0.999999%", errors.TooManyRejects),
        (1, "1%", None),
        (99, "100%", None),
        (100, "100%", errors.NothingWritten),
    ],
)
def test_share_is_judged_by_all_rows_of_the_run(bad, share, error):
    report = world(lines((bad, "x"), (100 - bad, "1")), share, chunk_bytes=200).run()
    if error is None:
        assert report.status == (SUCCEEDED_WITH_REJECTS if bad else SUCCEEDED)
        return
    assert report.status == FAILED
    assert report.error is not None
    assert report.error.name == error.__name__
    if error is errors.TooManyRejects:
        row = f"{bad} of 100 {'row was' if bad == 1 else 'rows were'} rejected"
        assert f"{row} ({bad}%), and max_rejects is {share} (" in report.error.message


def test_hopeless_run_stops_after_a_thousand_rows_and_resumes_with_a_higher_share():
    it = world(lines((5000, "x"), (5000, "1")), "1%")
    with pytest.raises(errors.TooManyRejects, match=r"\(1%, [0-9,]+ of the [0-9,]+ rows read\)"):
        it.run()
    report = it.report()
    assert report.status == FAILED
    assert LEAST_ROWS_OF_SHARE <= report.rows.read < 9000
    it.options["max_rejects"] = "50%"
    report = it.run()
    assert (report.status, report.rows.read) == (SUCCEEDED_WITH_REJECTS, 10_000)
    assert report.rows.rejected == 5000
