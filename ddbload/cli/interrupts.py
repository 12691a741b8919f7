"""Handle Ctrl-C and SIGTERM, which mean the same.

They end a command by KeyboardInterrupt. While a run writes, the first one lets the requests in
flight finish, so that the run can be resumed; the second ends the process at once.
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
    """Raise KeyboardInterrupt on a signal; return a function that tells whether one came.

    The code that is interrupted may replace the exception: a half imported module raises
    ImportError.
    """
    raised = False

    def handle(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - signal's contract
        nonlocal raised
        raised = True
        raise KeyboardInterrupt

    for number in _handled_signals():
        signal.signal(number, handle)
    return lambda: raised


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether to stop."""
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's contract
        if asked.is_set():
            os._exit(Interrupted.exit_code)
        asked.set()
        # os.write, because the handler may interrupt code that holds the lock of sys.stderr.
        words = "\nddbload: stopping after the requests in flight; interrupt again to quit now\n"
        with suppress(OSError):
            os.write(2, words.encode())

    before = [(number, signal.signal(number, handle)) for number in _handled_signals()]
    try:
        yield asked.is_set
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _handled_signals() -> list[signal.Signals]:
    # Ignored signals stay ignored: a shell ignores Ctrl-C for background jobs of a script.
    return [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
