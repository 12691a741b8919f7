"""The simulated time until the first write is that of the scan, and of what starts after it."""

from __future__ import annotations

import pytest

from tests.sim import scale_imports
from tests.sim.first_write import MB, FirstWrites, measure, table

STARTS = scale_imports.MAP_SECONDS + 2 * scale_imports.START_SECONDS


def test_whole_scan_waits_for_every_byte_and_edges_do_not():
    found = measure("some cells quoted", 24 * MB, counts_processor=False)
    assert found.whole is not None
    assert found.whole > STARTS + 24 * MB / 70e6
    assert STARTS < found.at_best < found.whole
    assert STARTS < found.edges < found.whole


def test_saved_share_is_of_the_whole_load():
    found = FirstWrites(size=400_000_000, whole=60.0, edges=9.0, at_best=10.0)
    # Four million rows take 1,000 seconds at 4,000 units, and 100 at 40,000.
    assert found.saved_share(4_000) == pytest.approx(50 / 1060)
    assert found.saved_share(40_000) == pytest.approx(50 / 160)
    assert table("made up", [found]).splitlines()[-1] == (
        "| 381 | 60.0 s | 9.0 s | 10.0 s | 4.7% | 31.2% |"
    )
