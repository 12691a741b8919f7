"""Detector of concurrent writes of one key."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Overlap:
    """A key that call ``second`` began to write before call ``first`` had ended."""

    key: Hashable
    first: int
    second: int


class InFlight:
    """Keys that are being written, with their calls. Thread-safe."""

    def __init__(self) -> None:
        self.overlaps: list[Overlap] = []
        self.most = 0  # calls at once
        self._calls: dict[Hashable, list[int]] = {}
        self._open = 0
        self._lock = threading.Lock()

    @contextmanager
    def writing(self, call: int, keys: Iterable[Hashable]) -> Iterator[None]:
        """Register ``keys`` as being written by ``call`` while the block runs."""
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
