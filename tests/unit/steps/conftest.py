"""Rows go out in their order here, so that it can be said which are settled when."""

from __future__ import annotations

import pytest

from ddbload.dynamodb.limits import MAX_BATCH_ROWS
from ddbload.write.scheduler.scheduler import Scheduler


@pytest.fixture(autouse=True)
def _in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "SPREAD_ROWS", MAX_BATCH_ROWS)
