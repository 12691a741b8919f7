"""Find rows that fit a file's columns and may be none: titles, comments, footers, row names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddbload.rows.header_evidence import filled
from ddbload.rows.readings import Reading
from ddbload.rows.sample_splits import COMMENTS, NUMBER_CELL, SampleTable, TextSample

_FOOTER_ROWS = 5
_LEAST_ROWS = 4
_FOOTER = "if it is a footer and not a row, remove it"
Rows = Sequence[list[str] | None]


def odd_rows(sample: TextSample, table: SampleTable, reading: Reading) -> Iterator[tuple[int, str]]:
    """Yield warnings of rows in a reading: a line of the sample, and the rest of a sentence.

    There `{line}` stands for the line of the file, and `{before}` for the number of lines before.
    """
    first = sum(line <= reading.skip_lines for line in table.lines)
    rows, lines = table.rows[first:], table.lines[first:]
    if len(rows) < _LEAST_ROWS:
        return
    if reading.width == 1:
        yield from _odd_cells(sample, table, rows, lines)
        return
    if _may_have_row_names(rows):
        names = "names all columns but the last one, which is empty: if each row begins with its"
        yield lines[0], f"{names} name, say --skip-lines {{line}} --columns row,NAMES"
    if reading.header and any(name != name.strip() for name in reading.names or ()):
        yield lines[0], "has names that begin or end with blanks, which are kept (see --rename)"
    footer = _footer(rows, reading.width) if table.whole else 0
    if footer:
        yield lines[footer], f"has few values, and every row above more: {_FOOTER}"


def _odd_cells(
    sample: TextSample, table: SampleTable, rows: Rows, lines: Sequence[int]
) -> Iterator[tuple[int, str]]:
    """Yield the warnings of a single column."""
    apart = [n for n, line in enumerate(lines) if n and not sample.lines[line - 2].strip()]
    if apart == [1]:
        title = "is below an empty line: if it names the column, say --skip-lines {before}"
        yield lines[1], title
    if apart == [len(rows) - 1] and table.whole:
        yield lines[-1], f"is below an empty line: {_FOOTER}"
    marks = () if table.marks.comment else COMMENTS
    for mark in marks:
        marked = [n for n, row in enumerate(rows) if n and row and row[0].startswith(f"{mark} ")]
        if 0 < len(marked) <= len(rows) / _LEAST_ROWS:
            comment = f"begins as a comment does: if it is one, say --comment '{mark}'"
            yield lines[marked[0]], comment


def _may_have_row_names(rows: Rows) -> bool:
    """Return whether each row has a field more than the header, and other names at its start."""
    head, *below = rows
    if head is None or any(row and (row[-1] or len(row) != len(head) + 1) for row in below):
        return False
    cells = [row[0] for row in below if row]
    numbered = [f"{n}" for n in range(1, len(cells) + 1)]
    is_text = not any(map(NUMBER_CELL.fullmatch, cells))
    return len(set(cells)) == len(below) and (is_text or cells == numbered)


def _footer(rows: Rows, width: int) -> int:
    """Return the first of the last rows whose columns are mostly empty, as in no other; or 0."""
    sparse = [row is not None and len(row) == width and 2 * filled(row) < width for row in rows]
    start = sparse.index(True, 1) if any(sparse[1:]) else len(rows)
    is_last = all(sparse[start:]) and _LEAST_ROWS <= start >= len(rows) - _FOOTER_ROWS
    found = (n for n, row in enumerate(rows) if n >= start and row and filled(row))
    return next(found, 0) if is_last and width > 2 else 0
