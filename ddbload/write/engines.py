"""A driver for each engine's name."""

from __future__ import annotations

from collections.abc import Callable

from ddbload.contracts import Options
from ddbload.write.driver import Driver
from ddbload.write.sync import SyncDriver
from ddbload.write.threads import ThreadsDriver

DRIVERS: dict[str, Callable[[int], Driver]] = {
    "sync": lambda _: SyncDriver(),
    "threads": ThreadsDriver,
}
"""Made for so many requests in flight."""


def driver_of(options: Options) -> Driver:
    """The driver that a run's options ask for. The caller closes it."""
    return DRIVERS[options.engine](options.concurrency)
