"""Count distinct and repeated keys: exactly up to `EXACT_ROWS` rows, then from a sample of keys.

Keys are compared by 64 bits of their BLAKE2b hash. Among five million keys, the chance that two
different ones have the same hash is one in a million. With more rows only keys whose hash ends in
zeros are counted ("adaptive sampling", Flajolet 1990). A key is counted with all its rows or not at
all, so that the counts can be scaled.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt

EXACT_ROWS = 5_000_000
_BUCKETS = 256
"""Buckets by the first byte of the hash, so that each count takes little memory."""


@dataclass(frozen=True, slots=True)
class DistinctKeys:
    """Counts of the keys of all rows with a key."""

    rows: int
    distinct: int
    repeated: int
    """Keys with several rows."""
    extra_rows: int
    """Rows with the key of an earlier row; rows minus items."""
    exact: bool
    error: float
    """Relative standard error of `distinct`; 0 if exact."""


class KeyCounter:
    """Counter of keys in bounded memory: eight bytes a row, for up to `exact_rows` rows."""

    def __init__(self, exact_rows: int = EXACT_ROWS) -> None:
        self._most = exact_rows
        self._rows = 0
        self._bits = 0
        self._kept = 0
        self._fresh = [array("Q") for _ in range(_BUCKETS)]
        self._hashes = [array("Q") for _ in range(_BUCKETS)]
        self._counts = [array("I") for _ in range(_BUCKETS)]

    def add(self, keys: Iterable[bytes]) -> None:
        """Count keys, given as bytes."""
        hashes = array("Q", b"".join([blake2b(key, digest_size=8).digest() for key in keys]))
        self._rows += len(hashes)
        mask = (1 << self._bits) - 1
        some = [each for each in hashes if not each & mask] if mask else hashes
        fresh = self._fresh
        for each in some:
            fresh[each >> 56].append(each)
        self._kept += len(some)
        self._bound()

    def _bound(self) -> None:
        while self._kept > self._most:
            self._compact()
            if self._kept > self._most // 2:
                self._bits += 1

    def merge(self, other: KeyCounter) -> None:
        """Add the keys that another counter has counted."""
        self._rows += other._rows
        self._bits = max(self._bits, other._bits)
        for bucket in range(_BUCKETS):
            fresh = self._fresh[bucket]
            fresh.extend(other._fresh[bucket])
            for each, count in zip(other._hashes[bucket], other._counts[bucket], strict=True):
                fresh.extend([each] * count)
        self._kept = sum(map(len, self._fresh)) + sum(map(len, self._hashes))
        self._bound()

    def keys(self) -> DistinctKeys:
        """Return the counts so far."""
        distinct = repeated = kept = 0
        for bucket in range(_BUCKETS):
            counts = self._counted(bucket).values()
            distinct += len(counts)
            kept += sum(counts)
            repeated += len(counts) - list(counts).count(1)
        scale = 1 << self._bits
        found, error = distinct * scale, 1 / sqrt(max(1, distinct))
        if 10 * (kept - distinct) < distinct:
            # With few repeated keys, rows minus repetitions is the better estimate.
            found = self._rows - (kept - distinct) * scale
            error = sqrt(kept - distinct) * scale / max(1, found)
        found = min(self._rows, found)
        return DistinctKeys(
            rows=self._rows,
            distinct=found,
            repeated=min(found, repeated * scale),
            extra_rows=self._rows - found,
            exact=not self._bits,
            error=error if self._bits else 0.0,
        )

    def _counted(self, bucket: int) -> Counter[int]:
        mask = (1 << self._bits) - 1
        known = Counter(dict(zip(self._hashes[bucket], self._counts[bucket], strict=True)))
        known.update(self._fresh[bucket])
        if mask:
            known = Counter({each: count for each, count in known.items() if not each & mask})
        return known

    def _compact(self) -> None:
        for bucket in range(_BUCKETS):
            known = self._counted(bucket)
            self._fresh[bucket] = array("Q")
            self._hashes[bucket] = array("Q", known.keys())
            self._counts[bucket] = array("I", known.values())
        self._kept = sum(map(len, self._hashes))
