"""The words of a mode for written rows."""

from __future__ import annotations

import pytest

from ddbload.dynamodb.modes import DELETE, INSERT, LAST_WINS, PUT, UPDATE


@pytest.mark.parametrize(
    ("mode", "word"),
    [
        *((PUT, "written"), (INSERT, "written"), (LAST_WINS, "written")),
        *((UPDATE, "updated"), (DELETE, "deleted")),
    ],
)
def test_written_rows_are_named_by_mode(mode, word):
    assert mode.written == word
    assert mode.written_text(9000) == f"9,000 {word}"


@pytest.mark.parametrize(
    ("mode", "before"),
    [
        (INSERT, "may have been there before"),
        (UPDATE, "may have had these values before"),
        (DELETE, "may have been gone before"),
    ],
)
def test_uncertain_rows_are_shown_beside_written(mode, before):
    assert mode.written_text(9000, 1200) == (
        f"9,000 {mode.written}, of which up to 1,200 {before} (an attempt was killed or"
        " stopped, or an answer was lost)"
    )
