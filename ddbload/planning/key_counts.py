"""Count distinct and repeated keys, and find partition keys with many rows, in bounded memory.

Keys are compared by 64 bits of SipHash. Among five million keys, the chance that two different
ones have the same hash is one in a million. With more rows only keys whose hash ends in zeros are
counted ("adaptive sampling", Flajolet 1990). A key is counted with all its rows or not at all, so
that the counts can be scaled.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from importlib.util import source_hash
from itertools import chain, repeat
from math import sqrt
from typing import Any

EXACT_ROWS = 5_000_000
"""Rows up to which keys are counted exactly."""
CAPACITY = 4096
"""Number of partition keys that `HeavyHitters` counts at once."""
FEW_ROWS = 1000
"""Number of rows below which no partition key counts as hot."""
HOT_SHARE = 0.05
"""Share of the rows above which a partition key counts as hot."""
_BUCKETS = 256
"""Buckets by the last byte of the hash. Counting one bucket at a time takes little memory."""


class KeyCounter:
    """Counter of distinct and repeated keys in bounded memory.

    It takes eight bytes a row, for at most `exact_rows` rows.
    """

    def __init__(self, exact_rows: int = EXACT_ROWS) -> None:
        self._most = exact_rows
        self._rows = 0
        self._bits = 0
        self._fresh = [array("Q") for _ in range(_BUCKETS)]
        self._hashes = [array("Q") for _ in range(_BUCKETS)]
        self._counts = [array("I") for _ in range(_BUCKETS)]

    def add(self, keys: Iterable[bytes]) -> None:
        """Count keys, given as bytes."""
        # Unlike hash(), this is the same in all processes, and takes a tenth of a BLAKE2b's time.
        octets = b"".join(map(source_hash, keys))
        hashes, fresh = array("Q", octets), self._fresh
        self._rows += len(hashes)
        deque(map(array.append, map(fresh.__getitem__, octets[7::8]), hashes), maxlen=0)
        self._bound()

    def _bound(self) -> None:
        while sum(map(len, chain(self._fresh, self._hashes))) > self._most:
            self._compact()
            if sum(map(len, self._hashes)) > self._most // 2:
                self._bits += 1

    def merge(self, other: KeyCounter) -> None:
        """Add the counts of another counter."""
        self._rows += other._rows
        self._bits = max(self._bits, other._bits)
        for bucket in range(_BUCKETS):
            self._fresh[bucket].extend(other._fresh[bucket])
            counted = map(repeat, other._hashes[bucket], other._counts[bucket])
            self._fresh[bucket].extend(chain(*counted))
        self._bound()

    def to_json(self) -> dict[str, Any]:
        """Return the counts so far, in the form of a plan's `keys` (see docs/plan.md)."""
        self._compact()
        distinct, kept = sum(map(len, self._counts)), sum(map(sum, self._counts))
        repeated = distinct - sum(counts.count(1) for counts in self._counts)
        scale = 1 << self._bits
        found, error = distinct * scale, 1 / sqrt(max(1, distinct))
        if 10 * (kept - distinct) < distinct:
            # With few repeated keys, rows minus repetitions is the better estimate.
            found = self._rows - (kept - distinct) * scale
            error = sqrt(kept - distinct) * scale / max(1, found)
        found = min(self._rows, found)
        return {
            "rows": self._rows,
            "distinct": found,
            "repeated": min(found, repeated * scale),
            "extra_rows": self._rows - found,
            "exact": not self._bits,
            "error": round(error, 6) if self._bits else 0.0,
        }

    def _compact(self) -> None:
        mask = (1 << self._bits) - 1
        for bucket, fresh in enumerate(self._fresh):
            known = Counter(dict(zip(self._hashes[bucket], self._counts[bucket], strict=True)))
            known.update(fresh)
            if mask:
                known = Counter({each: count for each, count in known.items() if not each & mask})
            self._fresh[bucket] = array("Q")
            self._hashes[bucket] = array("Q", known.keys())
            self._counts[bucket] = array("I", known.values())


class HeavyHitters:
    """Counter of the most frequent partition keys, in bounded memory.

    This is the summary of Misra and Gries in the mergeable form of Agarwal et al. (2012): a count
    is at most `rows / capacity` too small.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.rows = 0
        self._capacity = capacity
        self._counts: Counter[Hashable] = Counter()
        self._deficit = 0

    def add(self, keys: Sequence[Hashable]) -> None:
        """Add the partition keys of a block of rows."""
        self.rows += len(keys)
        self._counts.update(keys)
        self._bound()

    def merge(self, other: HeavyHitters) -> None:
        """Add the counts of another counter."""
        self.rows += other.rows
        self._deficit += other._deficit
        self._counts.update(other._counts)
        self._bound()

    def _bound(self) -> None:
        if len(self._counts) > 2 * self._capacity:
            less = sorted(self._counts.values(), reverse=True)[self._capacity]
            self._deficit += less
            self._counts = Counter(
                {key: count - less for key, count in self._counts.items() if count > less}
            )

    @property
    def distinct(self) -> int | None:
        """Number of distinct partition keys; None if there are too many to count."""
        return None if self._deficit else len(self._counts)

    @property
    def most(self) -> int:
        """Rows of the most frequent partition key; too low by at most `error` of all rows."""
        return max(self._counts.values(), default=0)

    @property
    def share(self) -> float:
        """Share of the rows with the most frequent partition key."""
        return self.most / self.rows if self.rows else 0.0

    @property
    def error(self) -> float:
        """Share of all rows by which `most` may be too small."""
        return self._deficit / self.rows if self.rows else 0.0

    @property
    def hot_share(self) -> float:
        """Share of the hottest partition key if it counts as hot, else 0."""
        return self.share if self.rows >= FEW_ROWS and self.share > HOT_SHARE else 0.0
