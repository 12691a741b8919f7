"""A rejected row as it is told of: a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ddbload.rows.defects import Defect
from ddbload.rows.places import Places


def reject_line(
    places: Places,
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
