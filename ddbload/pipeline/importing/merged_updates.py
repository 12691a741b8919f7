"""Updates of one key that are merged into one request."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ddbload.dynamodb.attribute_values import Attributes
from ddbload.dynamodb.row_writes import RowWrites
from ddbload.pipeline.importing.row_window import PendingRows


class MergedUpdates:
    """Rows in memory, some of which stand for earlier rows of their key as well."""

    def __init__(self, pending: PendingRows, writes: RowWrites) -> None:
        self._pending = pending
        self._writes = writes
        # By the handle of the last of the merged rows.
        self._merged: dict[int, Attributes] = {}

    def merge(self, earlier: int, later: int) -> bool:
        """Merge a row into a later one, as `RowMerger` says."""
        row = self._writes.merged(self._item(earlier), self._item(later))
        if row is None:
            return False
        self._merged.pop(earlier, None)
        self._merged[later] = row
        return True

    def restore(self, handles: Sequence[int]) -> None:
        """Merge only these rows into the last of them."""
        for handle in handles:
            self._merged.pop(handle, None)
        for earlier, later in pairwise(handles):
            merged = self.merge(earlier, later)
            assert merged, "these rows were merged before"  # noqa: S101

    def items(self, handles: Sequence[int]) -> list[Attributes]:
        """Return the rows with these handles, with those merged into them."""
        return [self._item(handle) for handle in handles]

    def body(self, handles: Sequence[int]) -> bytes:
        """Make the body of the request that writes these rows."""
        (handle,) = handles
        merged = self._merged.get(handle)
        return self._pending.body(handles) if merged is None else self._pending.body_of(merged)

    def release(self, handles: Sequence[int]) -> None:
        """Forget rows that have an outcome."""
        for handle in handles:
            self._merged.pop(handle, None)

    def _item(self, handle: int) -> Attributes:
        merged = self._merged.get(handle)
        return self._pending.items((handle,))[0] if merged is None else merged
