"""Notices two writes of one key that are under way at once."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Overlap:
    """A key that call ``second`` began to write while call ``first`` had not ended."""

    key: Hashable
    first: int
    second: int


class InFlight:
    """Which keys are being written, and by which call. Thread-safe."""

    def __init__(self) -> None:
        self.overlaps: list[Overlap] = []
        self.most = 0  # calls at once
        self._calls: dict[Hashable, list[int]] = {}
        self._open = 0
        self._lock = threading.Lock()

    @contextmanager
    def writing(self, call: int, keys: Iterable[Hashable]) -> Iterator[None]:
        """Count ``keys`` as being written by ``call`` while the block runs."""
        held = list(keys)
        with self._lock:
            self._open += 1
            self.most = max(self.most, self._open)
            for key in held:
                others = self._calls.setdefault(key, [])
                self.overlaps += [Overlap(key, other, call) for other in others]
                others.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                for key in held:
                    self._calls[key].remove(call)
                    if not self._calls[key]:
                        del self._calls[key]
