"""A rejected row as it is told of: a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ddbload.rows.parse import Defect
from ddbload.rows.places import Places


def reject_line(places: Places, row: int, defect: Defect, columns: Sequence[str]) -> bytes:
    """Where the row stands, what is wrong with it, and the row. Raises `SplitMismatch`."""
    at = places.position(row)
    line = {
        "line": at.line,
        "byte": at.byte,
        "column": defect.column_of(columns),
        "cause": defect.cause,
        "detail": defect.detail,
        "raw": places.raw(row),
    }
    return json.dumps(line).encode() + b"\n"
