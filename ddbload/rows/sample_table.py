"""First rows of a text file under one dialect, and how much they look like a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ddbload.contracts.column_mapping import name_columns
from ddbload.rows.header_evidence import COMPARED_ROWS
from ddbload.rows.readings import Reading
from ddbload.rows.sample_splits import Marks, clean_share_of


@dataclass(frozen=True, slots=True)
class SampleTable:
    """First rows of a file under one dialect."""

    delimiter: str
    marks: Marks
    rows: list[list[str] | None]
    """Fields of each row; None for a malformed one."""
    lines: list[int]
    """Line of each row."""

    @property
    def width(self) -> int:
        """Most common number of fields, where more fields count for more."""
        counts = Counter(len(row) for row in self.rows if row is not None)
        most = max(counts.items(), key=lambda each: (each[1] * (1 - 1 / each[0]), each[1]))
        return most[0]

    def reading(self, place: int, **more: object) -> Reading:
        """Return the reading whose header, or first row, is row `place`."""
        row = self.rows[place] or []
        names, _, _ = name_columns(row)
        made = Reading(
            self.delimiter,
            *self.marks,
            skip_lines=self.lines[place] - 1,
            names=names,
            width=len(row),
            rows=self.below(place, len(row)),
        )
        return replace(made, **more)  # type: ignore[arg-type]

    def below(self, place: int, width: int) -> tuple[tuple[str, ...], ...]:
        """Return the rows of one width below a row."""
        rows = (row for row in self.rows[place + 1 :] if row is not None and len(row) == width)
        return tuple(tuple(row) for row, _ in zip(rows, range(COMPARED_ROWS), strict=False))


def score_of(fit: float, rows: Sequence[Sequence[str]], width: int) -> float:
    lone = sum((cell[:1] == "'") != (cell[-1:] == "'") for row in rows for cell in row)
    cells = max(1, sum(map(len, rows)))
    clean = clean_share_of(rows) * (1 - lone / cells)
    used = {place for row in rows for place, cell in enumerate(row[:width]) if cell}
    # Columns without any cell are no reason to prefer a delimiter.
    width = len(used) if len(used) > 1 else width
    return fit * clean * (1 - 1 / width if width > 1 else 0.3)


def first_and_rest(
    rows: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
    return (rows[0], rows[1:]) if rows else ((), ())


def any_quoted(rows: Sequence[list[str] | None]) -> bool:
    """Return whether a cell is in quotes, and needs them."""
    cells = (cell for row in rows for cell in row or ())
    return any(len(c) > 1 and c[0] == c[-1] == '"' and c.count('"') == 2 for c in cells)


def joined_names(rows: Sequence[Sequence[str]], width: int) -> tuple[str, ...]:
    """Join the names of several rows. In all but the last one, a name holds up to the next."""
    parts: list[list[str]] = [[] for _ in range(width)]
    for number, row in enumerate(rows):
        held = ""
        for place in range(width):
            cell = row[place].strip() if place < len(row) else ""
            held = cell or (held if number < len(rows) - 1 else "")
            parts[place] += [held] if held and held not in parts[place] else []
    names, _, _ = name_columns([" ".join(each) for each in parts], number=True)
    return names
