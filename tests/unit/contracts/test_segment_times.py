"""Times of a segment: written compactly, read strictly."""

from __future__ import annotations

import pytest

from ddbload.contracts.row_counts import MAX_SAMPLES, ProgressSample, SegmentTimes
from ddbload.errors import InvalidPayload

SAMPLES = [ProgressSample(1.0, 10, 12, 0), ProgressSample(2.5, 10**15, 10**15, 10**15)]
VALUE = {"worker": "ab", "began": 5.5, "ended": 9, "samples": ""}


def test_samples_are_read_back():
    times = SegmentTimes.of("ab", 5.5, 9.0, SAMPLES)
    again = SegmentTimes.from_json(times.to_json())
    assert again == times
    assert list(again.iter_samples()) == SAMPLES


WRONG = ["1", "1.0/2/3", "1.0/2/3/-4", "1.0/2/3/4 ", " 1.0/2/3/4", "1.0/2/3/4\n", None, 7, [], "x"]
TOO_LONG = [" ".join(["1.0/2/3/4"] * (MAX_SAMPLES + 1)), "1.0/2/3/" + "4" * 10_000]


@pytest.mark.parametrize("samples", WRONG + TOO_LONG)
def test_other_texts_are_refused(samples):
    with pytest.raises(InvalidPayload, match=r"times\.samples"):
        SegmentTimes.from_json({**VALUE, "samples": samples}, "times")


@pytest.mark.parametrize("ended", [5.4, 1e300, float("inf"), float("nan"), -1, "9", None])
def test_times_that_no_calendar_has_are_refused(ended):
    with pytest.raises(InvalidPayload, match=r"times\.ended"):
        SegmentTimes.from_json({**VALUE, "ended": ended}, "times")
