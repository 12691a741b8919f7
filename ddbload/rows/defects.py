"""What is wrong with a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a row is none.

    `column` counts from 0 and may lie beyond the header, or is the name of an attribute that is no
    column of the file.
    """

    cause: str
    detail: str
    column: int | str | None = None

    def column_of(self, columns: Sequence[str]) -> str | None:
        """The name of what is wrong, in a file with these columns; none where it is the row."""
        if isinstance(self.column, int):
            return columns[self.column] if self.column < len(columns) else None
        return self.column
