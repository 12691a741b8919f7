"""Laws of edges: a proved row end is one, and an import by edges loads no other rows in silence."""

from __future__ import annotations

from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from ddbload.errors import RowTooLong, SplitMismatch, UnterminatedQuote
from ddbload.rows.dialect_grammar import dialect_boundaries
from ddbload.steps import chunker
from tests.oracle.csv_machine import read_rows
from tests.property.rows_files import File, files
from tests.unit.steps.expected import assert_rejects_are, status_for, table_of
from tests.unit.steps.generated import Case, open_cases, seconds

FEWER = settings(max_examples=max(1, settings.default.max_examples // 2))
"""Fewer examples: an import takes thirty times as long as a split."""


def _rows(data: bytes, file: File) -> list[tuple[list[str], str | None]]:
    # An empty line before: a byte order mark is one at the beginning of a file only.
    return [(row.fields, row.defect) for row in read_rows(b"\n" + data, *file.marks)]


@given(files(), st.data())
def test_proved_row_end_parts_the_rows(file: File, data: st.DataObject) -> None:
    content = b"x\n" + file.data
    ends = dialect_boundaries(file.dialect)
    lines = ends.all(content)
    longest = max(end - start for start, end in zip([0, *lines], lines, strict=False))
    for _ in range(4):
        start = data.draw(st.integers(2, len(content)))
        size = data.draw(st.sampled_from([3, 9, longest, longest + 1, longest + 9]))
        window = content[start : start + size]
        found = ends.edge(window, final=start + size >= len(content), longest=len(window) > longest)
        assert 0 <= found <= len(window)
        if found:
            cut = start + found
            assert _rows(content[:cut], file) + _rows(content[cut:], file) == _rows(content, file)


@FEWER
@given(
    open_cases(),
    st.sampled_from([1, 20, 60, 200]),
    seconds(),
    st.sampled_from([1, 5, 20, 16_384]),
    st.sampled_from([None, 10, 40, 200]),
)
def test_import_by_edges_loads_the_same_rows_or_fails_by_name(
    case: Case, chunk_bytes: int, time: float, window: int, max_row_bytes: int | None
) -> None:
    options = {"scan": "edges", "max_row_bytes": max_row_bytes}
    world = case.world(chunk_bytes, options)
    failed = False
    with mock.patch.object(chunker, "FIRST_WINDOW_BYTES", window):
        try:
            world.preflight(time)
        except (RowTooLong, UnterminatedQuote):
            assert world.manifest == ()
            return
        for chunk in world.manifest:
            try:
                world.import_one(chunk, seconds=time)
            except (RowTooLong, SplitMismatch, UnterminatedQuote):
                failed = True
    report = world.report()
    assert (report.status == "FAILED") == failed or report.rows.all_rejected
    if not failed:
        assert report.status == status_for(report.rows)
        assert table_of(world) == case.outcome.last_of_each_key
        assert_rejects_are(case.outcome.rejects, world.rejects())
