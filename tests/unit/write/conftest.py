from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.aws.response_helpers import Canned, canned_dynamodb


@pytest.fixture(scope="module")
def canned_once() -> Iterator[tuple[Any, Canned]]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield canned_dynamodb(monkeypatch)


@pytest.fixture
def canned(canned_once) -> tuple[Any, Canned]:
    """A real client and the answers it will get."""
    _, canned = canned_once
    canned.answers.clear()
    canned.requests.clear()
    return canned_once


@pytest.fixture
def no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests wait for nothing but the back-off: a clock that stands still ends no wait."""
    name = "ddbload.write.pacing.pacing"
    monkeypatch.setattr(f"{name}.AdaptiveRate.request_units", lambda *_given: math.inf)
    monkeypatch.setattr(f"{name}.AdaptiveRate.ready_at", lambda _self, now: now)
    monkeypatch.setattr(f"{name}.AdaptiveRate.answered", lambda *_given: None)
