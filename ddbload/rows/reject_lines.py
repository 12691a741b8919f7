"""Rejects: the reason why a row is not written, and the line of JSON that reports it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.results import LINES_BEFORE
from ddbload.dynamodb.limits import MAX_COLUMNS
from ddbload.rows.row_positions import RowPositions


@dataclass(frozen=True, slots=True)
class Defect:
    """Reason why a row is rejected.

    `cause` is a code, `detail` a sentence without row data. `column` counts from 0 and may lie
    beyond the header; for an attribute that comes from no column it is the attribute's name.
    """

    cause: str
    detail: str
    column: int | str | None = None

    def column_of(self, columns: Sequence[str]) -> str | None:
        """Return the name of the bad column, given the file's columns; None for the whole row."""
        if isinstance(self.column, int):
            return columns[self.column] if self.column < len(columns) else None
        return self.column


def field_count(found: int, columns: int) -> Defect:
    """Return the defect of a row with another number of fields than the file has columns."""
    # A row is not split any further.
    count = f"more than {MAX_COLUMNS}" if found > MAX_COLUMNS else str(found)
    return Defect("field_count", f"{count} fields; the file has {columns} columns")


def reject_line(
    places: RowPositions,
    row: int,
    defect: Defect,
    columns: Sequence[str],
    offset: int = 0,
    source: str | None = None,
    *,
    knows_line: bool = True,
    places_of_fields: Sequence[int] | None = None,
) -> bytes:
    """Return a reject as a line of JSON: position, column, cause, and the row itself.

    `source` is the object's name, given where a run has several. `offset` turns a position among
    the rows of all objects into one within the object. Without `knows_line`, lines are counted
    from the chunk's start; `number_reject` makes them lines of the source. `places_of_fields`: of
    an object with columns in another order; its rejects name the columns of their row. Raises
    `SplitMismatch`.
    """
    at = places.position(row)
    line: dict[str, Any] = {} if source is None else {"source": source}
    line |= {"line": at.line} if knows_line else {"line": None, LINES_BEFORE: at.line}
    line |= {
        "byte": at.byte + offset,
        "column": defect.column_of(columns),
        "cause": defect.cause,
        "detail": defect.detail,
        "raw": places.raw(row),
    }
    if places_of_fields is not None:
        line["columns"] = [columns[place] for place in places_of_fields]
    return json.dumps(line).encode() + b"\n"
