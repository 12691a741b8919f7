"""Laws of a whole import: any file, in any dialect, in any chunks, cut at any time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from ddbload.errors import UnterminatedQuote
from tests.property.rows_files import marks_of
from tests.unit.steps.expected import (
    assert_rejects_are,
    assert_segments_tell_the_truth,
    counted,
    ends_within_quotes,
    status_for,
    table_of,
)
from tests.unit.steps.generated import Case, Sizes, cases, chunk_sizes, open_cases, seconds, sizes

FEWER = settings(max_examples=max(1, settings.default.max_examples // 2))
"""Fewer examples: an import takes thirty times as long as a split."""


@given(cases(), chunk_sizes(), seconds(), sizes())
def test_import_is_that_of_the_oracle(
    case: Case, chunk_bytes: int, time: float, at_once: Sizes
) -> None:
    """Table, rejects with positions, and counts of each segment, which cover the file."""
    world, expected = case.world(chunk_bytes), case.outcome
    with at_once():
        report = world.run(time)
    assert report.status == status_for(report.rows)
    table, rows_of_key = table_of(world), expected.all_of_each_key
    assert table.keys() == rows_of_key.keys()
    # Of rows with one key in several chunks any may be the last.
    assert all(table[key] in rows for key, rows in rows_of_key.items())
    if len(world.manifest) == 1:
        assert table == expected.last_of_each_key
    assert_rejects_are(expected.rejects, world.rejects())
    assert_segments_tell_the_truth(world, expected)
    assert report.rows.read == len(expected.rows)
    assert report.rows.rejected == len(expected.rejects)
    assert report.rows.conserved
    position = world.ledger.record().data_start
    for segment in counted(world):
        assert segment.start == position
        position = segment.end
    assert position.byte == len(case.data)


@FEWER
@given(cases(), chunk_sizes(), sizes())
def test_each_row_is_written_once_without_interruptions(
    case: Case, chunk_bytes: int, at_once: Sizes
) -> None:
    world = case.world(chunk_bytes)
    with at_once():
        report = world.run()
    assert len(world.dynamodb.writes) == report.rows.written
    if case.has_unique_keys:
        assert report.rows.superseded == 0


@FEWER
@given(open_cases(), chunk_sizes(), sizes())
def test_file_is_refused_exactly_when_it_ends_inside_quotes(
    case: Case, chunk_bytes: int, at_once: Sizes
) -> None:
    world = case.world(chunk_bytes)
    if not ends_within_quotes(case.data, *marks_of(case.dialect)):
        with at_once():
            world.preflight()
        return
    with at_once(), pytest.raises(UnterminatedQuote):
        world.preflight()
    assert world.manifest == ()
