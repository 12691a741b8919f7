"""Ctrl-C, and SIGTERM, which is heeded as that.

They end a command where it stands, by KeyboardInterrupt. While a run writes, the first asks it
to stop at a row that is settled, and the second ends it at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from ddbload.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def raise_on_interrupt() -> Callable[[], bool]:
    """Have KeyboardInterrupt raised from now on; a function that says whether it was.

    What is interrupted may make another exception of it: a module half imported an ImportError.
    """
    raised = False

    def handle(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - signal's contract
        nonlocal raised
        raised = True
        raise KeyboardInterrupt

    for number in _heeded():
        signal.signal(number, handle)
    return lambda: raised


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

    before = [(number, signal.signal(number, handle)) for number in _heeded()]
    try:
        yield asked.is_set
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _heeded() -> list[signal.Signals]:
    # What is ignored is to stay so: Ctrl-C is not meant for what a script runs in the background.
    return [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
