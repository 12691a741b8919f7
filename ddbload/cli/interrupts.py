"""Handle Ctrl-C and SIGTERM, which mean the same.

They end a command by KeyboardInterrupt. While a run writes, the first one stops it: no new row is
sent, those that were sent are settled and recorded, and the run can be resumed. The second ends the
process at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from ddbload.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_SECONDS = 0.01
"""Time until an exception that could not be raised, or was dropped, is raised again."""


def raise_on_interrupt() -> Callable[[], bool]:
    """Raise KeyboardInterrupt on a signal; return a function that tells whether one came.

    The code that is interrupted may replace the exception: a half imported module raises
    ImportError. So it is raised after modules that are loading, and again after a callback of the
    interpreter, which prints exceptions and drops them.
    """
    raised = False

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's contract
        nonlocal raised
        raised = True
        if _is_importing(frame):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
            return
        raise KeyboardInterrupt

    def dropped(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        else:
            sys.__unraisablehook__(unraisable)

    for number in (*_handled_signals(), signal.SIGALRM):
        signal.signal(number, handle)
    sys.unraisablehook = dropped
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
        words = (
            "\nddbload: stopping after the requests in flight, in 10 seconds at most; interrupt"
            " again to quit now\n"
        )
        with suppress(OSError):
            os.write(2, words.encode())

    before = [(number, signal.signal(number, handle)) for number in _handled_signals()]
    try:
        yield asked.is_set
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _is_importing(frame: FrameType | None) -> bool:
    """Tell whether a module is loading."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _handled_signals() -> list[signal.Signals]:
    # Ignored signals stay ignored: a shell ignores Ctrl-C for background jobs of a script.
    return [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
