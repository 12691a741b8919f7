"""Ctrl-C: the first asks a run to stop at a row that is settled, the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from ddbload.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether to stop."""
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's contract
        if asked.is_set():
            os._exit(Interrupted.exit_code)
        asked.set()
        # Written past sys.stderr's buffer and lock: a handler may run inside either.
        words = "\nddbload: stopping when the requests under way are answered; again to quit now\n"
        with suppress(OSError):
            os.write(2, words.encode())

    # What is ignored is to stay so: Ctrl-C is not meant for what a script runs in the background.
    heeded = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = [(number, signal.signal(number, handle)) for number in heeded]
    try:
        yield asked.is_set
    finally:
        for number, handler in before:
            signal.signal(number, handler)
