"""Choose how many rows a request carries, where rows may have to be sent a second time alone. Pure.

In mode `insert` a batch does not tell what a row found in the table, so each row that found an item
is sent again by itself. That is cheap while few do: a request for 25 rows instead of 25 requests.
But DynamoDB bills the row twice. So where many rows find an item, each goes alone at once.
"""

from __future__ import annotations

from ddbload.write.scheduler.messages import Accepted
from ddbload.write.scheduler.outcome_tracker import RowOutcome

WINDOW_ROWS = 200
"""Rows over which the share of those that found an item is averaged."""
MOST_FOUND = 0.1
"""Share from which on rows go alone: they cost at most a tenth more write units than they must."""
FEW_FOUND = 0.05
"""Share below which rows go together again."""


class BatchSize:
    """Most rows of a request, by what the latest rows found."""

    def __init__(self, most_rows: int) -> None:
        self.rows = self._most_rows = most_rows
        """Most rows of a request now."""
        self._found = 0.0

    def answered(self, rows: int, answer: Accepted) -> bool:
        """Learn from the answer to a request's first attempt; return whether `rows` changed."""
        if self._most_rows == 1:
            return False
        if answer.single_rows:
            self.rows = self._most_rows = 1
            return True
        if answer.outcome is RowOutcome.WRITTEN:
            found = len(answer.alone) - len(answer.unsure)
            if not found and not self._found:
                return False
        else:
            found = rows
        weight = min(1.0, rows / WINDOW_ROWS)
        self._found += (found / rows - self._found) * weight
        if self._found < 0.5 / WINDOW_ROWS:
            self._found = 0.0
        before = self.rows
        if self._found > MOST_FOUND:
            self.rows = 1
        elif self._found < FEW_FOUND:
            self.rows = self._most_rows
        return self.rows != before
