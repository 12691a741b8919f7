"""Rows go out in their order here, so that it can be said which are settled when."""

from __future__ import annotations

import pytest

from ddbload.write import limits


@pytest.fixture(autouse=True)
def _in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SPREAD_ROWS", limits.MAX_BATCH_ROWS)
