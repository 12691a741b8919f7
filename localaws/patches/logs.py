"""Patch CloudWatch Logs: list the events of several streams, sorted by time."""

from __future__ import annotations

from typing import Any

from moto.logs.models import LogGroup

from localaws.patches.monkeypatch import original, replace


def apply() -> None:
    """Patch FilterLogEvents, which lists one stream after another in moto.

    AWS on its parameter `interleaved`: "this parameter is ignored and the value is assumed to be
    true".
    """
    filter_events = original(LogGroup, "filter_log_events")

    def filter_log_events(self: LogGroup, *given: Any) -> Any:
        *rest, _interleaved = given
        return filter_events(self, *rest, True)

    replace(LogGroup, "filter_log_events", filter_log_events)
