"""Split the first rows of a text file by possible delimiters, and measure how well each fits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from ddbload.contracts.column_mapping import Dialect, name_columns
from ddbload.contracts.run_record import Cursor
from ddbload.errors import InvalidPayload
from ddbload.rows.blocks import Block, Defect
from ddbload.rows.columns import ParsedRow, ParsedRows, RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries
from ddbload.rows.header_evidence import COMMENTS, COMPARED_ROWS, header_evidence
from ddbload.rows.readings import Reading

SNIFFED_BYTES = 64 * 1024
"""Bytes of the sample, unless its first row is longer. The caller may pass more."""

_COMPARED_BYTES, _COMPARED_LINES = 16 * 1024, 50
"""Bytes and lines, whichever are more, that are split in dialects with other marks: of many such
dialects, a file of marks alone has malformed rows in each."""
_SCORED_ROWS, _SCORED_CELLS = 100, 2_000
"""Maximum rows and cells that are examined to measure how well a delimiter fits."""
NUMBER_CELL = re.compile(r"\s*[-+]?\d[\d.,:/ T+-]*Z?")
"""Numbers, dates and times, which header cells rarely look like."""
_CLEAN = re.compile(
    r"[-+]?[$€£]?\d[\d.,:/ 'T+-]*(?:[eE][-+]?\d+)?[%Z]?"  # numbers, dates, times
    r"|[^\s,;|\t\"]+"  # words, names, addresses
)
_GAP = re.compile(r"\S {2,}\S")
_PHRASE = re.compile(r"[^\s,;|\t\"][^,;|\t\"]*(?<!\s)")


class Marks(NamedTuple):
    """Marks of a dialect besides the delimiter; None for one that is not used."""

    quote: str | None
    escape: str | None
    comment: str | None
    program: str | None = None


@dataclass(frozen=True)
class SampleTable:
    """First rows of a file in one dialect."""

    delimiter: str
    marks: Marks
    parsed: ParsedRows
    whole: bool
    """True if these are all rows of the file."""

    @cached_property
    def kept(self) -> list[tuple[int, ParsedRow]]:
        """Rows with their numbers, without those that cannot be decoded.

        These fail in every dialect, so they are no evidence for one.
        """
        return [
            (number, each)
            for number, each in enumerate(self.parsed.records)
            if not (isinstance(each, Defect) and each.cause == "bad_encoding")
        ]

    @cached_property
    def rows(self) -> list[list[str] | None]:
        """Fields of each row; None for a malformed one."""
        return [None if isinstance(each, Defect) else each for _, each in self.kept]

    @cached_property
    def lines(self) -> list[int]:
        """Line of each row."""
        return list(map(self.line, range(len(self.kept))))

    def line(self, row: int) -> int:
        """Return the line of a row."""
        return self.parsed.position(self.kept[row][0]).line

    @cached_property
    def first(self) -> tuple[tuple[str, ...], ...]:
        """Well-formed rows at the beginning, including the header."""
        return tuple(tuple(row) for row in self.rows[:_SCORED_ROWS] if row is not None)

    @property
    def header(self) -> tuple[str, ...]:
        """Fields of the first row; empty if that row is malformed."""
        first = self.parsed.records[0]
        return () if isinstance(first, Defect) else tuple(first)

    @cached_property
    def columns(self) -> int:
        """Number of fields in the first row; if that is malformed, in most rows or to its fault."""
        if self.header:
            return len(self.header)
        lengths = Counter(len(row) for row in self.rows if row is not None)
        most = max(lengths, key=lambda length: (lengths[length], length), default=0)
        return most or _fields_before(self.parsed.records[0]) + 1

    def agreeing(self, start: int, width: int) -> int:
        """Count the rows from row `start` on that have so many fields."""
        return sum(row is not None and len(row) == width for row in self.rows[start:])

    def fit(self, start: int, width: int) -> float:
        """Return the share of rows from row `start` on that have so many fields."""
        return self.agreeing(start, width) / max(1, len(self.rows) - start)

    @cached_property
    def clean_share(self) -> float:
        """Share of cells with one value, see `clean_share_of`."""
        return clean_share_of(self.first)

    @property
    def fits(self) -> bool:
        """True if every row has the same number of fields, two or more."""
        return self.columns > 1 and self.agreeing(0, self.columns) == len(self.rows)

    @property
    def has_lone_quote(self) -> bool:
        """True if a field contains a lone quote, which may open a field with another delimiter."""
        quote = self.marks.quote
        rows = [row for row in self.rows if row and quote is not None and quote in "".join(row)]
        return any(field.count(quote or "") % 2 for row in rows for field in row)

    @cached_property
    def width(self) -> int:
        """Most common number of fields, where more fields count for more."""
        counts = Counter(len(row) for row in self.rows if row is not None)
        most = max(counts.items(), key=lambda each: (each[1] * (1 - 1 / each[0]), each[1]))
        return most[0]

    @property
    def last_cells(self) -> set[str]:
        """Last cells of the rows that have the most common number of fields."""
        return {row[-1] for row in self.rows if row is not None and len(row) == self.width}

    def fitting(self, last: int) -> int:
        """Count the rows up to a line that have the most common number of fields."""
        pairs = zip(self.rows, self.lines, strict=True)
        return sum(row is not None and len(row) == self.width for row, n in pairs if n <= last)

    def reading(self, place: int) -> Reading:
        """Return the reading whose header, or first row, is row `place`."""
        row = self.rows[place] or []
        names, _, _ = name_columns(row)
        return Reading(
            self.delimiter,
            *self.marks,
            skip_lines=self.lines[place] - 1,
            names=names,
            width=len(row),
            rows=self.below(place, len(row)),
        )

    def below(self, place: int, width: int) -> tuple[tuple[str, ...], ...]:
        """Return the rows of one width below a row."""
        rows = (row for row in self.rows[place + 1 :] if row is not None and len(row) == width)
        return tuple(map(tuple, islice(rows, COMPARED_ROWS)))


class TextSample:
    """First rows of a text file, split in any dialect on demand."""

    def __init__(
        self, data: bytes, whole: bool, dialect: Dialect, *, several: bool = False
    ) -> None:
        """`whole`: the data is the whole file. `several`: other files are read as this one."""
        self.data, self.whole, self.dialect = data, whole, dialect
        self.is_all = whole and not several
        """True if no other rows are read in this dialect."""
        self._tables: dict[tuple[str, Marks], SampleTable | None] = {}

    @cached_property
    def lines(self) -> list[bytes]:
        """Lines without their ends, including empty ones."""
        return self.data.splitlines()

    @cached_property
    def top(self) -> list[bytes]:
        """First lines that are not empty."""
        return [*islice(filter(None, self.lines), COMPARED_ROWS + 1)]

    @cached_property
    def bare_comment(self) -> str | None:
        """Comment mark of some lines if all others begin with a quote; else None."""
        others = [line for line in self.top if not line.startswith(b'"')]
        if self.dialect.comment is not None or not 0 < len(others) < len(self.top) - 1:
            return None
        marks = (mark for mark in COMMENTS if all(n.startswith(mark.encode()) for n in others))
        return next(marks, None)

    @cached_property
    def _compared(self) -> int:
        first = self.data.splitlines(keepends=True)[:_COMPARED_LINES]
        return max(_COMPARED_BYTES, sum(map(len, first)))

    @property
    def marks(self) -> Marks:
        """Marks of the dialect."""
        dialect = self.dialect
        return Marks(dialect.quote, dialect.escape, dialect.comment, dialect.program)

    def table(self, delimiter: str, marks: Marks | None = None) -> SampleTable | None:
        """Split the sample (cached); None if that makes no rows, as with the quote as delimiter.

        With other `marks` than the dialect's, only its first rows.
        """
        key = delimiter, marks or self.marks
        if key not in self._tables:
            self._tables[key] = self._split(*key)
        return self._tables[key]

    def score(self, table: SampleTable, start: int, width: int) -> float:
        """Return the score of a table whose rows begin at row `start` and have so many fields.

        The score is the product of the share of rows that have, of clean cells, of what has to be
        left out, and of the columns, where more are better.
        """
        rows = [row for row in table.rows[start : start + _SCORED_ROWS] if row is not None]
        lone = sum("'" in (cell[:1], cell[-1:]) for row in rows for cell in row)
        clean = clean_share_of(rows) * (1 - lone / max(1, sum(map(len, rows))))
        used = {place for row in rows for place, cell in enumerate(row[:width]) if cell}
        # Columns without any cell are no reason to prefer a delimiter.
        columns = len(used) if len(used) > 1 else width
        score = table.fit(start, width) * clean * (1 - 1 / columns if columns > 1 else 0.3)
        score *= 0.97 if start else 1.0
        score *= 1.0 if table.marks.quote == self.dialect.quote else 0.99
        return score * (0.6 if self.swallows(table) else 1.0)

    def swallows(self, table: SampleTable) -> bool:
        """Return whether a cell holds a line end and a delimiter, and lines would fit without it.

        Then its quotes may be text.
        """
        mark = table.delimiter
        if not any("\n" in cell and mark in cell for row in table.first for cell in row):
            return False
        lines = self.data[:_COMPARED_BYTES].split(b"\n")[table.lines[0] - 1 : -1]
        fitting = sum(line.count(mark.encode()) == table.columns - 1 for line in lines)
        return fitting >= 0.9 * len(lines)

    def _split(self, delimiter: str, marks: Marks) -> SampleTable | None:
        try:
            dialect = replace(self.dialect, delimiter=delimiter, **marks._asdict())
        except InvalidPayload:
            return None
        ends = dialect_boundaries(dialect)
        all_data = self.data if marks == self.marks else self.data[: self._compared]
        is_whole = self.whole and len(all_data) == len(self.data)
        data = all_data[:SNIFFED_BYTES]
        is_end = is_whole and len(data) == len(all_data)
        end = len(data) if is_end else ends.last(data, final=False)
        if not end:
            # The first row is longer than the sample.
            data = all_data
            end = (0 if is_whole else ends.last(data, final=False)) or len(data)
        nulls = ("\\N",) if dialect.program else ()
        parsed = RowParser(dialect, ends, nulls).parse(Block(data[:end], Cursor(0, 1)))
        return SampleTable(delimiter, marks, parsed, is_end) if parsed.records else None


def clean_share_of(rows: Iterable[Sequence[str]]) -> float:
    """Return the share of cells with one value: a number, date or word; a phrase counts less.

    Cells of a wrong delimiter contain other delimiters, or begin or end with spaces.
    """
    cells = [*islice((cell for row in rows for cell in row if cell), _SCORED_CELLS)]
    clean = 0.0
    for cell in cells:
        if _CLEAN.fullmatch(cell):
            clean += 1.0
        elif _PHRASE.fullmatch(cell):
            clean += 0.7
        elif cell[0] == " " and NUMBER_CELL.fullmatch(cell):
            clean += 0.35
    return clean / len(cells) if cells else 0.0


def _fields_before(record: ParsedRow) -> int:
    """Count the fields of a malformed row before its fault."""
    if not isinstance(record, Defect) or record.cause == "bad_encoding":
        return 0
    return record.column if isinstance(record.column, int) else 0


def any_quoted(rows: Sequence[list[str] | None]) -> bool:
    """Return whether a cell is in quotes, and needs them."""
    cells = (cell for row in rows for cell in row or ())
    return any(len(c) > 1 and c[0] == c[-1] == '"' and c.count('"') == 2 for c in cells)


def breaks_types(table: SampleTable, usual: SampleTable) -> bool:
    """Return whether only the usual quotes leave numbers or dates alone in a column."""
    found = []
    for each, other in ((table, usual), (usual, table)):
        # Rows in which they differ come first, as only some are compared.
        rows = sorted(each.first[1:], key=set(other.first).__contains__)
        found.append(header_evidence(each.first[0], rows).contrasts)
    return found == [False, True]


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


def aligned_reading(data: bytes, *, header: bool) -> Reading | None:
    """Return the reading of columns that are aligned by blanks; None if they are not."""
    text = data.decode(errors="replace")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][: COMPARED_ROWS + 1]
    gaps = sum(_GAP.search(line) is not None for line in lines)
    if len(lines) < 3 or 2 * gaps < len(lines):
        return None
    for squeeze, pattern, delimiter in (
        ("tr -s ' '", r" +", " "),
        (r"sed -E 's/ {2,}/\t/g'", r" {2,}", "\t"),
    ):
        rows = [tuple(re.split(pattern, line.strip())) for line in lines]
        width = len(rows[1])
        fit = sum(len(row) == width for row in rows)
        if width > 1 and (fit == len(rows) or gaps == len(lines)):
            pipe = squeeze
            if re.search(r"(?m)^ | \r?$", text):
                pipe = rf"sed 's/^ *//; s/ *\r*$//' | {squeeze}"
            evidence = header_evidence(rows[0], rows[1:])
            has_names = header and not evidence.looks_like_data
            return Reading(
                delimiter,
                pipe=pipe,
                header=has_names,
                width=width,
                names=rows[0] if has_names else None,
                rows=tuple(rows[has_names:]),
            )
    return None
