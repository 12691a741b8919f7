"""A token bucket of write units. Pure: time is passed in, in seconds of a monotonic clock."""

from __future__ import annotations

BURST_SECONDS = 0.2
"""How much unused capacity is kept, and how much one request takes at most."""


class Bucket:
    """Units that may go. A request may go into debt, and the next one waits until it is paid off.

    It is empty at first, and open.
    """

    def __init__(self, now: float) -> None:
        self._balance = 0.0
        self._at = now

    def ready_at(self, units_per_second: float, now: float) -> float:
        """When a request may go, where so many units come in: `now`, or a later time."""
        came = (now - self._at) * units_per_second
        self._balance = min(units_per_second * BURST_SECONDS, self._balance + came)
        self._at = now
        return now if self._balance >= 0 else now - self._balance / units_per_second

    def take(self, units: float) -> None:
        """Let so many units go; fewer than none: give them back."""
        self._balance -= units
