"""Laws of row ends: they are the oracle's, from any offset and in any prefix."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ddbload.rows.blocks import RowBoundaries
from ddbload.rows.dialect_grammar import DelimitedBoundaries
from tests.property.rows_files import File, files
from tests.unit.rows.expected import certain_ends, row_ends, terminated_ends


def _ends_of(file: File) -> RowBoundaries:
    """Return boundaries that look back a few bytes only, even in files as small as these."""
    return DelimitedBoundaries(file.dialect, 1 + len(file.data) % 5)


@given(files())
def test_row_ends_equal_the_oracles(file: File) -> None:
    assert tuple(_ends_of(file).all(file.data)) == row_ends(file.data, *file.marks)


@given(files(), st.data())
def test_last_row_end_of_a_prefix_is_the_greatest_certain_one(
    file: File, data: st.DataObject
) -> None:
    ends = _ends_of(file)
    for cut in data.draw(st.sets(st.integers(0, len(file.data)), min_size=1, max_size=8)):
        prefix = file.data[:cut]
        assert ends.last(prefix, final=False) == max(certain_ends(prefix, *file.marks), default=0)


@given(files(), st.data())
def test_search_finds_the_first_row_end_at_its_offset_or_later(
    file: File, data: st.DataObject
) -> None:
    ends = _ends_of(file)
    terminated = terminated_ends(file.data, *file.marks)
    certain = certain_ends(file.data, *file.marks)
    for offset in data.draw(st.sets(st.integers(1, len(file.data) + 1), min_size=1, max_size=8)):
        first = min((end for end in terminated if end >= offset), default=0)
        assert ends.first_from(file.data, offset, final=True) == first
        expected = first if first in certain else 0
        assert ends.first_from(file.data, offset, final=False) == expected


@given(files(), st.data())
def test_search_can_start_at_any_row(file: File, data: st.DataObject) -> None:
    ends = _ends_of(file)
    start = data.draw(st.sampled_from([0, *row_ends(file.data, *file.marks)]))
    offset = data.draw(st.integers(start + 1, max(start, len(file.data)) + 1))
    for final in (False, True):
        found = ends.first_from(file.data, offset, start=start, final=final)
        assert found == ends.first_from(file.data, offset, final=final)


@given(files())
def test_buffer_closes_exactly_when_a_line_end_after_it_ends_a_row(file: File) -> None:
    # Unless that is escaped: then there is text before it.
    text = next(each for each in "xyzuv" if each not in "".join(map(str, file.marks[:4])))
    data = file.data + text.encode() * (file.dialect.escape is not None) + b"\n"
    ends = row_ends(data + b"a", *file.marks)
    assert _ends_of(file).closes(file.data) == (len(data) in ends)
