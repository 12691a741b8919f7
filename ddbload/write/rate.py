"""As many write units a second as a table takes, found by what comes back. Pure.

Time is passed in, in seconds of a monotonic clock.
"""

from __future__ import annotations

import math

BURST_SECONDS = 0.2
"""How much unused capacity is kept, and how much one request takes at most."""
PERIOD = 1.0
"""Seconds after which a rate is changed."""
RAISE = 0.003
"""By which share a rate rises in a second, right after something came back."""
DOUBLING = 20.0
"""Seconds without a return after which it rises twice as fast."""
MAX_RAISE = 0.25
FAST = 1.25
"""By which factor it rises in a second up to where it was."""
FADING = 0.8
"""What is left in a second of what was taken lately, while something comes back."""
BREAKDOWN = 0.98
"""Where more than this share comes back, that says nothing of what the table can take."""
SHORTEST = 0.1
"""Seconds. The time of a few requests is not to be divided by."""
ENOUGH = 100
"""Units, most of which came back, that say that it is no accident."""
SLOWEST = 1.0
"""Units a second that are tried whatever comes back."""


class Rate:
    """Write units a second, as many as the table lately took; no limit until it returns any.

    Once a second, or sooner when most comes back, the rate is lowered by the share of units that
    came back, so that what is sent is what was taken. While nothing comes back it is raised: by
    half a per cent a second at first, faster the longer it lasts. At a table's limit the two
    balance each other, and half a per cent of all rows comes back.
    """

    def __init__(
        self,
        now: float = 0.0,
        units_per_second: float = math.inf,
        slowest: float = SLOWEST,
    ) -> None:
        self.units_per_second = units_per_second
        self._slowest = slowest
        # Units a second that were taken lately: up to this it is raised fast.
        self._taken = units_per_second
        self._balance = 0.0
        self._at = now
        # Of the requests that were sent since `_since`: units, and those of them that came back.
        self._since = now
        self._units = 0
        self._back = 0
        # How long nothing has come back.
        self._quiet = 0.0

    @property
    def slowest(self) -> bool:
        """Whether it cannot be lowered any more."""
        return self.units_per_second <= self._slowest

    @property
    def request_units(self) -> float:
        """Rows of how many units one request may carry."""
        return self.units_per_second * BURST_SECONDS

    def ready_at(self, now: float) -> float:
        """When a request may go."""
        rate = self.units_per_second
        if rate == math.inf:
            return now
        self._balance = min(rate * BURST_SECONDS, self._balance + (now - self._at) * rate)
        self._at = now
        return now if self._balance >= 0 else now - self._balance / rate

    def pay(self, units: int) -> None:
        """A request goes."""
        self._balance -= units

    def answered(self, units: int, back: int, sent_at: float, now: float) -> None:
        """Of the units of a request so many came back."""
        if sent_at < self._since:
            # What was sent before the rate was changed says nothing about the new one. Nearly
            # all of what one counts was sent after it.
            return
        self._units += units
        self._back += back
        passed = now - self._since
        if passed < PERIOD and not self._drowning:
            return
        if self.units_per_second != math.inf:
            self._change(passed)
        elif self._back:
            self._begin(passed)
            self._balance = 0.0
            self._at = now
        self._since = now
        self._units = self._back = 0

    @property
    def _drowning(self) -> bool:
        """Whether most comes back, of enough requests that it is no accident."""
        rate = self.units_per_second
        enough = ENOUGH if rate == math.inf else max(ENOUGH, rate * PERIOD / 10)
        return 2 * self._back > self._units >= enough

    def _begin(self, passed: float) -> None:
        sent = self._units / max(passed, SHORTEST)
        share = self._back / self._units
        if passed >= PERIOD and share <= BREAKDOWN:
            self._taken = sent * (1 - share)
        self.units_per_second = max(sent * max(1 - share, 0.5), self._slowest)

    def _change(self, passed: float) -> None:
        rate = self.units_per_second
        sent = self._units / max(passed, SHORTEST)
        share = self._back / self._units
        if share <= BREAKDOWN:
            if share:
                self._taken = 0.0 if self._taken == math.inf else self._taken * FADING**passed
            self._taken = max(self._taken, sent * (1 - share))
        if share:
            self._quiet = 0.0
            rate = max(min(rate, sent) * (1 - share), rate / 2)
        else:
            self._quiet += passed
        if sent >= rate / 2:
            # Else the rate is not what limits it, and nothing is known of a higher one.
            known = 0.0 if share else min(rate * FAST, self._taken)
            raised = min(RAISE * 2 ** (self._quiet / DOUBLING), MAX_RAISE)
            rate = max(known, rate * (1 + passed * raised))
        self.units_per_second = max(rate, self._slowest)
