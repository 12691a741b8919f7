"""Split the first rows of a text file by possible delimiters, and measure how well each fits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from ddbload.contracts.column_mapping import Dialect, name_columns
from ddbload.contracts.run_record import Cursor
from ddbload.errors import InvalidPayload
from ddbload.rows.blocks import Block, Defect
from ddbload.rows.columns import ParsedRow, ParsedRows, RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries
from ddbload.rows.header_evidence import COMPARED_ROWS, header_evidence
from ddbload.rows.readings import Reading

SNIFFED_BYTES = 64 * 1024
"""Bytes of the sample, unless its first row is longer. The caller may pass more."""

_COMPARED_BYTES, _COMPARED_LINES = 16 * 1024, 50
"""Bytes and lines, whichever are more, that are split in dialects with other marks: of many such
dialects, a file of marks alone has malformed rows in each."""
_SCORED_ROWS = 100
_SCORED_CELLS = 2_000
"""Maximum rows and cells that are examined to measure how well a delimiter fits."""
NUMBER_CELL = re.compile(r"\s*[-+]?\d[\d.,:/ T+-]*")
"""Numbers, dates and times, which header cells rarely look like."""
_CLEAN = re.compile(
    r"[-+]?[$€£]?\d[\d.,:/ 'T+-]*(?:[eE][-+]?\d+)?[%Z]?"  # numbers, dates, times
    r"|[^\s,;|\t\"]+"  # words, names, addresses
)
_GAP = re.compile(r"\S {2,}\S")
_PHRASE = re.compile(r"[^\s,;|\t\"][^,;|\t\"]*(?<!\s)")


@dataclass(frozen=True, slots=True)
class Body:
    """Rows after the first one, split by one delimiter."""

    rows: int
    columns: int
    """Most common number of fields; 0 if no row can be read."""
    split: int
    """Number of rows with two fields or more. In a malformed row, fields before its fault count."""


@dataclass(frozen=True, slots=True)
class Split:
    """Sample split by one delimiter."""

    header: tuple[str, ...]
    """Fields of the first row; empty if that row is malformed."""
    columns: int
    """Number of fields in the first row.

    If that row is malformed: number in most rows, or fields before its fault.
    """
    share: float
    """Share of rows with as many fields as the first."""
    agreement: float
    """The same share without malformed rows that are split, which are no evidence."""
    rows: int
    has_lone_quote: bool
    """True if a field contains a lone quote, which may open a field under another delimiter."""
    body: Body
    own: int
    """Rows after the first one with the same number of fields."""
    first: tuple[tuple[str, ...], ...] = ()
    """Well-formed rows at the beginning, including the header."""

    @property
    def fits(self) -> bool:
        """True if every row has the same number of fields, two or more."""
        return self.share == 1 and self.columns > 1

    @property
    def clean_share(self) -> float:
        """Share of cells with one value, see `clean_share_of`."""
        return clean_share_of(self.first)

    @property
    def splits(self) -> bool:
        """True if most rows are split. In a sample of one malformed row, that row must be."""
        if not self.body.rows:
            return not self.header and self.columns > 1
        return self.body.split > self.body.rows / 2


def clean_share_of(rows: Iterable[Sequence[str]]) -> float:
    """Return the share of cells with one value: a number, date or word; a phrase counts half.

    Cells of a wrong delimiter contain other delimiters, or begin or end with spaces.
    """
    cells = [*islice((cell for row in rows for cell in row if cell), _SCORED_CELLS)]
    clean = sum(
        1.0 if _CLEAN.fullmatch(cell) else 0.7 * (_PHRASE.fullmatch(cell) is not None)
        for cell in cells
    )
    return clean / len(cells) if cells else 0.0


NO_SPLIT = Split((), 0, 0.0, 0.0, 0, False, Body(0, 0, 0), 0)
"""Result for a delimiter that makes no rows."""


class Marks(NamedTuple):
    """Marks of a dialect besides the delimiter; None for one that is not used."""

    quote: str | None
    escape: str | None
    comment: str | None


class SampleSplits:
    """First rows of a text file, split by any delimiter on demand."""

    def __init__(self, data: bytes, whole: bool, dialect: Dialect, count: int | None) -> None:
        """`whole`: the data is the whole file. `count`: number of columns, if known."""
        self._data, self._whole, self.dialect = data, whole, dialect
        self._count = count
        self._splits: dict[str, Split] = {}
        self._parsed: dict[str, ParsedRows | None] = {}
        self._variants: dict[Marks, SampleSplits] = {}

    @property
    def marks(self) -> Marks:
        """Marks of the dialect."""
        return Marks(self.dialect.quote, self.dialect.escape, self.dialect.comment)

    def variant(self, marks: Marks) -> SampleSplits:
        """Return the same rows in a dialect with other marks (cached)."""
        if marks not in self._variants:
            quote, escape, comment = marks
            dialect = replace(self.dialect, quote=quote, escape=escape, comment=comment)
            size = max(
                _COMPARED_BYTES, sum(map(len, self._data.splitlines(True)[:_COMPARED_LINES]))
            )
            whole = self._whole and size >= len(self._data)
            self._variants[marks] = SampleSplits(self._data[:size], whole, dialect, self._count)
        return self._variants[marks]

    def by(self, delimiter: str) -> Split:
        """Split the sample by a delimiter (cached); `NO_SPLIT` if that makes no rows."""
        if delimiter not in self._splits:
            self._splits[delimiter] = self._split_rows(delimiter)
        return self._splits[delimiter]

    def _split_rows(self, delimiter: str) -> Split:
        parsed = self.parsed(delimiter)
        if parsed is None or not parsed.records:
            return NO_SPLIT
        first = parsed.records[0]
        header = () if isinstance(first, Defect) else tuple(first)
        kept = decodable_rows(parsed)
        body = _body_of([each for number, each in kept if number])
        columns = len(header) or body.columns or _fields_before(first) + 1
        expected = self._count or columns
        counted = [each for _, each in kept if isinstance(each, list) or not _fields_before(each)]
        agreeing = sum(isinstance(each, list) and len(each) == expected for each in counted)
        return Split(
            header,
            columns,
            agreeing / len(kept) if kept else 0.0,
            agreeing / len(counted) if counted else 0.0,
            len(kept),
            _any_lone_quote([each for _, each in kept], self.dialect.quote),
            body,
            agreeing - (len(header) == expected),
            tuple(tuple(each) for _, each in kept[:_SCORED_ROWS] if isinstance(each, list)),
        )

    def parsed(self, delimiter: str) -> ParsedRows | None:
        """Parse the sample (cached); None if this cannot be a delimiter, such as the quote."""
        if delimiter not in self._parsed:
            self._parsed[delimiter] = self._parse(delimiter)
        return self._parsed[delimiter]

    def _parse(self, delimiter: str) -> ParsedRows | None:
        try:
            dialect = replace(self.dialect, delimiter=delimiter)
        except InvalidPayload:
            return None
        ends = dialect_boundaries(dialect)
        data = self._data[:SNIFFED_BYTES]
        whole = self._whole and len(data) == len(self._data)
        end = len(data) if whole else ends.last(data, final=False)
        if not end:
            # The first row is longer than the sample.
            data = self._data
            end = (0 if self._whole else ends.last(data, final=False)) or len(data)
        return RowParser(dialect, ends).parse(Block(data[:end], Cursor(0, 1)))


def decodable_rows(parsed: ParsedRows) -> list[tuple[int, ParsedRow]]:
    """Return rows with their numbers, without those that cannot be decoded.

    These fail under every delimiter, so they are no evidence for one.
    """
    return [
        (number, each)
        for number, each in enumerate(parsed.records)
        if not (isinstance(each, Defect) and each.cause == "bad_encoding")
    ]


def _body_of(rows: Sequence[ParsedRow]) -> Body:
    """Count the fields of the rows after the first one."""
    lengths = Counter(len(each) for each in rows if isinstance(each, list))
    split = sum(
        len(each) > 1 if isinstance(each, list) else _fields_before(each) > 0 for each in rows
    )
    columns = max(lengths, key=lambda length: (lengths[length], length), default=0)
    return Body(len(rows), columns, split)


def _fields_before(record: ParsedRow) -> int:
    """Count the fields of a malformed row before its fault."""
    if not isinstance(record, Defect) or record.cause == "bad_encoding":
        return 0
    return record.column if isinstance(record.column, int) else 0


def _any_lone_quote(records: list[ParsedRow], quote: str | None) -> bool:
    return quote is not None and any(
        field.count(quote) % 2 for record in records if isinstance(record, list) for field in record
    )


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

    @property
    def fitting(self) -> int:
        """Number of rows with the most common number of fields."""
        width = self.width
        return sum(row is not None and len(row) == width for row in self.rows)

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
        return tuple(tuple(row) for row, _ in zip(rows, range(COMPARED_ROWS), strict=False))


def score_of(fit: float, rows: Sequence[Sequence[str]], width: int) -> float:
    lone = sum("'" in (cell[:1], cell[-1:]) for row in rows for cell in row)
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


def aligned_reading(data: bytes, *, header: bool) -> Reading | None:
    """Return the reading of columns that are aligned by blanks; None if they are not."""
    text = data.decode(errors="replace")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][: COMPARED_ROWS + 1]
    if len(lines) < 3 or 2 * sum(_GAP.search(line) is not None for line in lines) < len(lines):
        return None
    for squeeze, pattern, delimiter in (
        ("tr -s ' '", r" +", " "),
        (r"sed -E 's/ {2,}/\t/g'", r" {2,}", "\t"),
    ):
        rows = [tuple(re.split(pattern, line.strip())) for line in lines]
        width = len(rows[1])
        fit = sum(len(row) == width for row in rows)
        if width > 1 and fit == len(rows):
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
