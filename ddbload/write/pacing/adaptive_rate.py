"""As many write units a second as a table takes, found by what comes back. Pure.

Time is passed in, in seconds of a monotonic clock.
"""

from __future__ import annotations

import math

from ddbload.write.pacing.wcu_budget import BURST_SECONDS, TokenBucket

REQUEST_MARGIN = 1.25
"""How much more a request takes where answers are slow than would do on the average."""
ROUNDING = 1e-6
PERIOD = 1.0
"""Seconds after which a rate is changed."""
RAISE = 0.003
"""By which share a rate rises in a second, right after something came back."""
DOUBLING = 20.0
"""Seconds without a return after which it rises twice as fast."""
MOST_RAISES = 10
"""How many times as fast at most. Else a burst that was saved up is used up in no time."""
FAST = 1.25
"""By which factor it rises in a second up to where it was."""
FADING = 0.8
"""What is left after a period of what was taken lately, while something comes back."""
BREAKDOWN = 0.98
"""Where more than this share comes back, that says nothing of what the table can take."""
SHORTEST = 0.1
"""Seconds. The time of a few requests is not to be divided by."""
ENOUGH = 100
"""Units, most of which came back, that say that it is no accident."""
FEW = 25
"""Fewer units say nothing yet where some of them came back."""
FEW_BACK = 3
"""Unless so many came back, and most did."""
FEW_SECONDS = 5.0
"""A rate is not left as it is for longer, however little is known."""
NOTED = 0.01
"""The share that must come back for there to be a limit at all: one costs about as much."""
SLOWEST = 1.0
"""Units a second that are tried whatever comes back."""


class AdaptiveRate:
    """Write units a second, as many as the table lately took; no limit until it returns any.

    Once a second, or sooner when most comes back, the rate is lowered by the share of units that
    came back, so that what is sent is what was taken. While nothing comes back it is raised: by
    `RAISE` a second at first, faster the longer it lasts. At a table's limit the two balance
    each other, and about that share of all rows comes back.
    """

    def __init__(
        self,
        now: float = 0.0,
        units_per_second: float = math.inf,
        slowest: float = SLOWEST,
        raised: float = RAISE,
    ) -> None:
        """Make one that begins at `units_per_second`, and rises by `raised` of it a second."""
        self.units_per_second = units_per_second
        self._slowest = slowest
        self._raise = raised
        # Units a second that were taken lately: up to this it is raised fast.
        self._taken = units_per_second
        self._bucket = TokenBucket(now)
        # Of the requests that were sent since `_since`: how many, the times of the first and the
        # last one, units, those of them that tell something, and of these those that came back.
        self._since = now
        self._count = 0
        self._first = 0.0
        self._last = 0.0
        self._units = 0
        self._telling = 0
        self._back = 0
        # How long nothing has come back.
        self._quiet = 0.0

    @property
    def slowest(self) -> bool:
        """Whether it cannot be lowered any more."""
        return self.units_per_second <= self._slowest

    def request_units(self, seconds: float = BURST_SECONDS) -> float:
        """Rows of how many units one request may carry, that takes so many seconds."""
        return self.units_per_second * seconds

    def ready_at(self, now: float) -> float:
        """When a request may go."""
        rate = self.units_per_second
        return now if rate == math.inf else self._bucket.ready_at(rate, now)

    def pay(self, units: int) -> None:
        """A request goes."""
        self._bucket.take(units)

    def answered(
        self, units: int, back: int, sent_at: float, now: float, stubborn: int = 0
    ) -> None:
        """Of the units of a request so many came back.

        `stubborn`: those of rows that say nothing of the others; they are not in `back`.
        """
        if sent_at < self._since:
            # What was sent before the rate was changed says nothing about the new one. Nearly
            # all of what one counts was sent after it.
            return
        if not self._count:
            self._first = self._last = sent_at
        self._last = max(self._last, sent_at)
        self._count += 1
        self._units += units
        self._telling += units - stubborn
        self._back += back
        passed = self._passed
        if not self._drowning and (passed < PERIOD - ROUNDING or self._few(passed)):
            return
        if self.units_per_second != math.inf:
            self._change(passed)
        elif self._back > NOTED * self._telling and self._back >= FEW_BACK:
            self._begin(passed)
            self._bucket = TokenBucket(now)
        self._since = now
        self._count = self._units = self._telling = self._back = 0

    @property
    def _passed(self) -> float:
        """The seconds in which these requests were sent, up to the one after them; 0: unknown.

        Not those until they were answered, and not those in which there was nothing to send.
        """
        if self._count < 2:
            return 0.0
        return (self._last - self._first) * self._count / (self._count - 1)

    @property
    def _drowning(self) -> bool:
        """Whether most comes back, of enough requests that it is no accident."""
        rate = self.units_per_second
        enough = ENOUGH if rate == math.inf else max(ENOUGH, rate * PERIOD / 10)
        return 2 * self._back > self._telling >= enough

    @property
    def _share(self) -> float:
        return self._back / self._telling

    def _few(self, passed: float) -> bool:
        """Whether what came back may still be an accident."""
        if not self._telling:
            return True
        if not self._back or passed >= FEW_SECONDS:
            return False
        if self._back < FEW_BACK and (self._telling < FEW or self.units_per_second == math.inf):
            return True
        return self._telling < FEW and 2 * self._back <= self._telling

    def _begin(self, passed: float) -> None:
        sent = self._units / max(passed, SHORTEST)
        share = self._share
        if passed >= PERIOD and share <= BREAKDOWN:
            self._taken = sent * (1 - share)
        self.units_per_second = max(sent * max(1 - share, 0.5), self._slowest)

    def _change(self, passed: float) -> None:
        rate = self.units_per_second
        sent = self._units / max(passed, SHORTEST)
        share = self._share
        if share <= BREAKDOWN:
            if share:
                faded = FADING ** min(passed, PERIOD)
                self._taken = 0.0 if self._taken == math.inf else self._taken * faded
            self._taken = max(self._taken, sent * (1 - share))
        if share:
            self._quiet = 0.0
            # Where little is sent, little that comes back says little of the rate.
            rate = max(min(rate, sent) * (1 - share), rate * (1 - 2 * share), rate / 2)
        else:
            self._quiet += passed
        if sent >= rate / 2:
            # Else the rate is not what limits it, and nothing is known of a higher one.
            known = 0.0 if share else min(rate * FAST, self._taken)
            raised = self._raise * min(2 ** (self._quiet / DOUBLING), MOST_RAISES)
            rate = max(known, rate * (1 + passed * raised))
        self.units_per_second = max(rate, self._slowest)
