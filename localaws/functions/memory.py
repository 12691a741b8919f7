"""Kill processes that exceed their function's memory.

Lambda limits the memory of a whole environment. Here the process's resident size is read often
enough to miss only very short peaks. Without /proc (macOS) there is no limit.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

_INTERVAL_SECONDS = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


def resident_bytes(pid: int) -> int | None:
    """Return a process's resident size; None if it has ended or /proc is missing."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:  # noqa: PTH123 - in a hot loop
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return None


class MemoryWatch:
    """Thread that checks all watched processes in turn."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[int, Callable[[], None]]] = {}
        self._peaks: dict[int, int] = {}
        self._changed = threading.Condition()
        if _PROC.is_dir():
            threading.Thread(target=self._run, name="memory", daemon=True).start()

    def watch(self, pid: int, limit_bytes: int, exceeded: Callable[[], None]) -> None:
        """Call `exceeded` once if the process uses more than `limit_bytes`."""
        with self._changed:
            self._watched[pid] = (limit_bytes, exceeded)
            self._changed.notify()

    def unwatch(self, pid: int) -> int:
        """Stop watching the process; return its peak resident size in bytes."""
        with self._changed:
            self._watched.pop(pid, None)
            return max(self._peaks.pop(pid, 0), resident_bytes(pid) or 0)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._watched:
                    self._changed.wait()
                watched = list(self._watched.items())
            for pid, (limit, exceeded) in watched:
                used = resident_bytes(pid)
                if used is None:
                    continue
                with self._changed:
                    if pid not in self._watched:
                        continue
                    self._peaks[pid] = max(self._peaks.get(pid, 0), used)
                    if used <= limit:
                        continue
                    del self._watched[pid]
                exceeded()
            time.sleep(_INTERVAL_SECONDS)
