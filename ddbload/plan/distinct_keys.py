"""How many keys come more than once. Exact up to so many rows, then a sample of the keys.

A key is known by 64 bits of its BLAKE2b hash: of five million keys two would have to be taken for
one with a chance of one in a million. When there are too many, only those are kept whose hash
ends in zeros ("adaptive sampling", Flajolet 1990): each key is kept or left out with all its
rows, so that what is counted of those that are kept holds for all, scaled.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt

EXACT_ROWS = 5_000_000
_PARTS = 256
"""By the first byte of the hash: what is sorted at a time stays small."""


@dataclass(frozen=True, slots=True)
class DistinctKeys:
    """What is known of the keys of all rows that have one."""

    rows: int
    distinct: int
    repeated: int
    """Keys that come more than once."""
    extra_rows: int
    """Rows whose key came before: so many fewer items than rows there are."""
    most: int
    """Rows of the key that comes most often, of those that were counted."""
    exact: bool
    error: float
    """Relative standard error of `distinct`; 0 where it is exact."""


class KeyCounter:
    """Counts keys in bounded memory: eight bytes a row, up to `exact_rows` of them."""

    def __init__(self, exact_rows: int = EXACT_ROWS) -> None:
        self._most = exact_rows
        self._rows = 0
        self._bits = 0
        self._kept = 0
        self._fresh = [array("Q") for _ in range(_PARTS)]
        self._hashes = [array("Q") for _ in range(_PARTS)]
        self._counts = [array("I") for _ in range(_PARTS)]

    def add(self, keys: Iterable[bytes]) -> None:
        """Count keys; equal ones are equal bytes."""
        hashes = array("Q", b"".join([blake2b(key, digest_size=8).digest() for key in keys]))
        self._rows += len(hashes)
        mask = (1 << self._bits) - 1
        some = [each for each in hashes if not each & mask] if mask else hashes
        fresh = self._fresh
        for each in some:
            fresh[each >> 56].append(each)
        self._kept += len(some)
        while self._kept > self._most:
            self._compact()
            if self._kept > self._most // 2:
                self._bits += 1

    def keys(self) -> DistinctKeys:
        """What was found."""
        distinct = repeated = kept = most = 0
        for part in range(_PARTS):
            counts = self._counted(part).values()
            distinct += len(counts)
            kept += sum(counts)
            repeated += len(counts) - list(counts).count(1)
            most = max(most, *counts, 0) if counts else most
        scale = 1 << self._bits
        found, error = distinct * scale, 1 / sqrt(max(1, distinct))
        if 10 * (kept - distinct) < distinct:
            # Few come twice: how many is better known than how many keys there are.
            found = self._rows - (kept - distinct) * scale
            error = sqrt(kept - distinct) * scale / max(1, found)
        found = min(self._rows, found)
        return DistinctKeys(
            rows=self._rows,
            distinct=found,
            repeated=min(found, repeated * scale),
            extra_rows=self._rows - found,
            most=most,
            exact=not self._bits,
            error=error if self._bits else 0.0,
        )

    def _counted(self, part: int) -> Counter[int]:
        mask = (1 << self._bits) - 1
        known = Counter(dict(zip(self._hashes[part], self._counts[part], strict=True)))
        known.update(self._fresh[part])
        if mask:
            known = Counter({each: count for each, count in known.items() if not each & mask})
        return known

    def _compact(self) -> None:
        for part in range(_PARTS):
            known = self._counted(part)
            self._fresh[part] = array("Q")
            self._hashes[part] = array("Q", known.keys())
            self._counts[part] = array("I", known.values())
        self._kept = sum(map(len, self._hashes))
