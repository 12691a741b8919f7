"""What is wrong with a row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddbload.rows.row_positions import RowPositions


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


def reject_line(
    places: RowPositions,
    row: int,
    defect: Defect,
    columns: Sequence[str],
    offset: int = 0,
    source: str | None = None,
) -> bytes:
    """Where the row stands, what is wrong with it, and the row. Raises `SplitMismatch`.

    `source`: the name of the object, where there are several; `offset`: from a place among the
    rows of all to one in it.
    """
    at = places.position(row)
    line: dict[str, Any] = {} if source is None else {"source": source}
    line |= {
        "line": at.line,
        "byte": at.byte + offset,
        "column": defect.column_of(columns),
        "cause": defect.cause,
        "detail": defect.detail,
        "raw": places.raw(row),
    }
    return json.dumps(line).encode() + b"\n"
