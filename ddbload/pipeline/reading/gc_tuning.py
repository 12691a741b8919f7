"""Python's collector of cycles, while rows pass by the hundred thousand."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 500_000
"""Objects made, and not let go, between two collections."""


@contextmanager
def rare_gc() -> Iterator[None]:
    """Look for cycles rarely.

    Rows are lists, and make none. With Python's own setting they are all looked at, again and
    again, while they wait to be written: a quarter of the time that reading and encoding take.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(RARELY, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
