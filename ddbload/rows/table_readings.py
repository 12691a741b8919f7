"""Find the readings of a file's first rows in one dialect: rows before the header, and header."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ddbload.contracts.column_mapping import name_columns
from ddbload.records import Record
from ddbload.rows.header_evidence import (
    COMMENTS,
    HeaderEvidence,
    filled,
    header_below,
    header_evidence,
    is_units_row,
)
from ddbload.rows.readings import Reading
from ddbload.rows.sample_splits import (
    NUMBER_CELL,
    SampleTable,
    TextSample,
    any_quoted,
    breaks_types,
    joined_names,
)

WEAK_DELIMITERS = (":", " ")
"""Delimiters common in prose. They count only if the header then has the key columns."""
EXCEL_LINE = re.compile(rb'"?sep=([^\r\n])"?(?=[\r\n]|\Z)', re.IGNORECASE)
"""First line that gives Excel the delimiter: `sep=;`."""
LEAST = 0.7
"""Share of rows below the header that must have its width, for a reading to be considered."""


class Candidate(Record):
    """A reading with its score."""

    reading: Reading
    score: float
    why: str
    """Reason against the first row of the file as header, as in `Doubt`."""
    clear: bool = True
    """True if the reading can be used without asking."""
    is_best: bool = True
    """True if the reading is better than the others, so that it is marked as such."""


class TableReadings:
    """Readings of the tables that a sample makes in several dialects."""

    def __init__(
        self,
        sample: TextSample,
        usual: str,
        wanted: frozenset[str],
        *,
        header: bool,
        lacks_keys: bool,
    ) -> None:
        """`usual`: delimiter that fits best if the first row is the header.

        `wanted`: columns that the header must have. `header`: the first row is a header.
        `lacks_keys`: it lacks the table's keys; a file without a header is refused for these.
        """
        self._data, self._sample, self._usual = sample.data, sample, usual
        self._wanted, self._header, self._lacks_keys = wanted, header, lacks_keys

    def of_table(self, table: SampleTable, prior: float) -> Iterator[Candidate]:
        """Yield the readings of the rows in one dialect. `prior`: factor of their scores."""
        marks, usual = table.marks, self._sample.marks
        is_other = marks[:2] != usual[:2]
        opened = self._opened(table.delimiter) if is_other else 0
        if marks.quote == "'" and not opened:
            return
        rival = None
        if is_other and opened < len(table.rows):
            rival = self._sample.table(table.delimiter, usual._replace(comment=marks.comment))
        last = table.lines[-1]
        lead = -1 if rival is None else rival.fitting(last) - table.fitting(last)
        # If quoted cells hold line ends and all rows fit, no quote is text.
        breaks = rival and rival.fits and any("\n" in cell for row in rival.first for cell in row)
        meant = rival if breaks else None
        if lead > 0 or (meant and (marks.quote or breaks_types(table, meant))):
            # The usual quotes make more rows, or cells with line ends.
            return
        bare = self._sample.table(table.delimiter, marks._replace(quote=None))
        if marks.quote == "'" and bare and bare.fitting(last) == table.fitting(last):
            lead = 0
        for each in self._of_table(table, prior):
            if not self._wanted <= set(each.reading.names or ()):
                continue
            is_between = each.reading.comment != usual.comment
            if is_between and not self._comments_are_clear(table):
                # As comments, rows would be left out.
                continue
            is_sure = meant is None and not (is_between and self._may_go_on(table))
            is_clear = each.clear and is_sure
            is_best = each.is_best and is_sure and (is_clear or lead < 0)
            if table.delimiter in WEAK_DELIMITERS and table.delimiter != self._usual:
                reading = each.reading
                is_best = is_best and reading.width > 2
                evidence = header_evidence(reading.names or (), reading.rows)
                is_clear = is_clear and is_best and evidence.contrasts and reading.header
            yield replace(each, clear=is_clear, is_best=is_best)

    def _of_table(self, table: SampleTable, prior: float) -> Iterator[Candidate]:
        """Yield the readings of the rows under one dialect."""
        width, rows = table.width, table.rows
        start = next(n for n, row in enumerate(rows) if row is not None and len(row) == width)
        lead, fit = rows[:start], table.fit(start, width)
        names = (lead[-1] or []) if lead else []
        is_trailing = start == 1 and len(names) == width - 1 and not any(table.last_cells)
        is_trailing = is_trailing and (width > 2 or not self._is_apart(table, start))
        if len(rows) - start < 2 and lead and not is_trailing:
            return
        if width < 2 or fit < LEAST or not self._may_be(table, start, fit):
            return
        base = prior * self._sample.score(table, start, width)
        if is_trailing or (2 * len(names) > width and len(names) > 1):
            yield from self._short_header(table, start, base, fit, is_trailing=is_trailing)
            return
        is_clear = self._is_clear(table, start, fit)
        why = self._why(table, start)
        if not self._header:
            reading = table.reading(start)
            data = (tuple(rows[start] or ()), *reading.rows)
            reading = replace(reading, header=False, names=None, rows=data)
            yield Candidate(self._at_top(table, reading), base, why, is_clear and not lead)
            return
        yield from self._header_rows(table, start, base, why, is_clear=is_clear)

    def _may_be(self, table: SampleTable, start: int, fit: float) -> bool:
        """Return whether delimiter and quotes are no ordinary text; rows begin at `start`."""
        if table.marks.quote is None and self._sample.dialect.quote is not None:
            # A line of a quoted cell has another number of fields.
            return fit == 1 and not any_quoted(table.rows)
        if table.delimiter not in WEAK_DELIMITERS:
            return True
        is_space = table.delimiter == " "
        texts = (cell for row in table.rows[start + is_space :] for cell in row or ())
        # Names of people and places have two words, and times contain colons.
        is_plain = (is_space and table.width > 2) or (
            all(map(NUMBER_CELL.fullmatch, texts)) == is_space
        )
        return is_plain and fit == 1 and len(table.rows) - start > 2

    def _header_rows(
        self, table: SampleTable, start: int, base: float, why: str, *, is_clear: bool
    ) -> Iterator[Candidate]:
        """Yield the readings whose header begins at row `start`."""
        rows, width = table.rows, table.width
        head = tuple(rows[start] or ())
        below = [(n, row) for n, row in enumerate(rows) if n > start and row and len(row) == width]
        title = None if self._wanted else header_below(head, [row for _, row in below])
        if title is not None:
            yield self._below_titles(table, start, below[title][0], base, is_clear=is_clear)
            return
        evidence = header_evidence(head, [row for _, row in below])
        reading = self._at_top(table, table.reading(start))
        if evidence.looks_like_data and not self._wanted:
            if self._lacks_keys and not start and table.delimiter not in WEAK_DELIMITERS:
                return
            if start or reading.comment:
                why = f"{why}; the row at line {table.lines[start]} looks like data"
            elif len(rows) > 1:
                why = f"looks like data and not like names: {evidence.why}"
            data = (head, *reading.rows)
            data_reading = replace(reading, header=False, names=None, rows=data)
            is_best = evidence.decides and (not start or self._is_apart(table, start))
            yield Candidate(data_reading, base * 0.9, why, clear=False, is_best=is_best)
            if not evidence.decides:
                yield Candidate(reading, base * 0.89, why, clear=False, is_best=False)
            return
        below_rows = reading.rows
        if len(below_rows) > 2 and is_units_row(below_rows[0], below_rows[1:]):
            named = reading.names
            line = table.lines[below[1][0]] - 1
            units = replace(
                reading, skip_lines=line, header=False, columns=named, rows=below_rows[1:]
            )
            why, is_best = "is followed by a row of units, or of more names", len(below_rows) > 3
            yield Candidate(units, base, why, clear=False, is_best=is_best)
            return
        has_names = bool(head) and all(head) and len(set(head)) == len(head)
        is_header = not start or self._is_header(table, start, evidence)
        clear = is_clear and is_header and (not start or has_names)
        is_best = bool(filled(head)) and (is_header or self._is_preamble(table, start))
        yield Candidate(
            reading, base * (1.0 if self._wanted else head_factor(evidence)), why, clear, is_best
        )

    def _below_titles(
        self, table: SampleTable, start: int, place: int, base: float, *, is_clear: bool
    ) -> Candidate:
        """Return the reading whose header is row `place`, below titles or other names."""
        rows, width = table.rows, table.width
        head, names = rows[start] or [], rows[place] or []
        titles = all(row is not None and filled(row) <= 1 for row in rows[start:place])
        why = (
            f"names {filled(head)} of its {width} columns, and a row below it that looks like a"
            f" header {filled(names)} of them"
        )
        evidence = header_evidence(names, table.below(place, width))
        full = len(set(names)) == width and all(names)
        reading = table.reading(place)
        if not titles and not full:
            heads = [row for row in rows[start : place + 1] if row and filled(row[1:])]
            joined = joined_names(heads, width)
            skipped = table.lines[place + 1] - 1 if place + 1 < len(rows) else 0
            reading = replace(
                reading, skip_lines=skipped, header=False, columns=joined, names=joined
            )
        clear = is_clear and titles and full and evidence.contrasts and width > 2
        return Candidate(self._at_top(table, reading), base, why, clear)

    def _is_header(self, table: SampleTable, start: int, evidence: HeaderEvidence) -> bool:
        """Return whether the row below a preamble is certainly the header."""
        is_named = bool(self._wanted) and self._wanted <= set(table.rows[start] or ())
        is_apart = self._is_apart(table, start) and table.width > 2
        return is_named or evidence.contrasts or is_apart

    def _is_apart(self, table: SampleTable, start: int) -> bool:
        """Return whether empty lines or comments precede a row."""
        return table.lines[start] - table.lines[start - 1] > 1

    def _is_preamble(self, table: SampleTable, start: int) -> bool:
        """Return whether the rows before a header cannot be the header of a single column."""
        marked = self._data.lstrip().startswith(tuple(mark.encode() for mark in COMMENTS))
        is_short = 1 < start < len(table.rows) - start and not self._is_apart(table, start - 1)
        return marked or is_short or self._is_apart(table, start)

    def _is_clear(self, table: SampleTable, start: int, fit: float) -> bool:
        """Return whether quotes, comments and rows before the header are what they seem."""
        rows, marks, usual = table.rows, table.marks, self._sample.dialect
        if len(rows) - start < 3 or fit < 1.0 - 1.5 / (len(rows) - start):
            is_usual = start == 0 and marks.quote == usual.quote and fit == 1
            return is_usual and self._comments_are_clear(table)
        half = max(2, table.width) / 2
        if start and (fit < 0.75 or any(n is None or filled(n) > half for n in rows[:start])):
            return False
        if marks.escape != usual.escape:
            return self._sample.is_all and not re.search(rb'\\[^"\\]', self._data)
        if marks.quote == usual.quote:
            return self._comments_are_clear(table)
        if marks.quote is None:
            return table.delimiter == "\t"
        texts = [cell for row in rows[start + 1 :] for cell in row or () if cell]
        plain = sum(NUMBER_CELL.fullmatch(cell) is not None for cell in texts)
        return fit == 1 and self._opened(table.delimiter) >= len(texts) - plain

    def _opened(self, delimiter: str) -> int:
        """Count the fields that begin with a single quote."""
        fields = rb"(?:^|(?<=[\r\n])|%b)'" % re.escape(delimiter.encode())
        return len(re.findall(fields, self._data))

    def _comments_are_clear(self, table: SampleTable) -> bool:
        """Return whether no line that begins with the comment mark is a row of the table."""
        mark = table.marks.comment
        if mark is None or mark == self._sample.dialect.comment:
            return True
        plain = self._sample.table(table.delimiter, table.marks._replace(comment=None))
        rows = [] if plain is None or mark == self._sample.bare_comment else plain.rows
        marked = [row for row in rows if row and row[0].startswith(mark)]
        return not any(len(row) - (not row[-1]) <= table.width <= len(row) for row in marked)

    def _may_go_on(self, table: SampleTable) -> bool:
        """Return whether lines beyond the sample's rows may begin with the comment mark."""
        mark = table.marks.comment or ""
        plain = self._sample.table(table.delimiter, table.marks._replace(comment=None))
        rest = self._sample.lines[plain.lines[-1] if plain else 0 :]
        is_seen = self._sample.is_all and not any(n.startswith(mark.encode()) for n in rest)
        return not is_seen and mark != self._sample.bare_comment

    def _at_top(self, table: SampleTable, reading: Reading) -> Reading:
        """Skip comments as lines if they all come before the rows: others might be data."""
        mark = reading.comment
        if mark is None or mark == self._sample.dialect.comment:
            return reading
        lines = self._sample.lines
        top = table.lines[0] - 1
        if any(line.startswith(mark.encode()) for line in lines[max(top, reading.skip_lines) :]):
            return reading if top < reading.skip_lines else replace(reading, skip_lines=0)
        return replace(reading, comment=None, skip_lines=max(top, reading.skip_lines))

    def _short_header(
        self, table: SampleTable, start: int, base: float, fit: float, *, is_trailing: bool
    ) -> Iterator[Candidate]:
        """Yield the reading of rows that are longer than the row of names before them.

        `is_trailing`: they have one field more, which is empty.
        """
        names, width, why = table.rows[start - 1] or [], table.width, self._why(table, start)
        is_short = len(names) == width - 1
        has_row_names = is_short and self._has_row_names(table, start)
        is_ended = start == 1 and len(names) == width + 1 and not names[-1]
        if is_ended or (is_trailing and not has_row_names):
            # Every row ends with a delimiter, or the header alone.
            reading, is_named = self._at_top(table, table.reading(0)), len(names) > 1
            rest = table.below(start, width)
            # A single name may be a title or a comment, and a single row prose.
            is_title = header_evidence(table.rows[start] or (), rest).contrasts
            clear = is_named or (bool(rest) and not is_title and fit == 1)
            if is_named or not names[0].startswith(COMMENTS):
                yield Candidate(reading, base * 1.05, why, clear, is_best=clear)
            return
        reading = table.reading(start)
        first = tuple(table.rows[start] or ())
        # R writes no name above row names. Blank cells at the end have no name either.
        has_cells = any(map(str.strip, table.last_cells))
        given = [["row", *names]] if is_short and (has_row_names or has_cells) else []
        if has_cells or not given:
            given.append([*names, *(f"c{place + 1}" for place in range(len(names), width))])
        if len(names) > width:
            # Cells may be missing at the end of each row.
            given = [names[:width]] if start == 1 else []
        for place, each in enumerate(given):
            columns, rows = name_columns(each, number=True)[0], (first, *reading.rows)
            named = replace(reading, header=False, columns=columns, names=columns, rows=rows)
            # Only a person can name the cells without a name.
            is_best = not place and has_row_names == has_cells and len(names) < width
            yield Candidate(named, base * (0.95 - place / 100), why, False, is_best)
        evidence = header_evidence(first, reading.rows)
        if not evidence.looks_like_data:
            is_named = all(cell and not NUMBER_CELL.fullmatch(cell) for cell in first)
            is_header = evidence.contrasts and is_named
            is_best = is_header or self._is_preamble(table, start)
            # Errors are kept, and cells of data are not to be kept as names.
            shown = reading if is_named else replace(reading, names=None)
            yield Candidate(shown, base * (1.0 if is_header else 0.7), why, False, is_best)

    def _has_row_names(self, table: SampleTable, start: int) -> bool:
        """Return whether the first cells may be row names of R, which are unique.

        R quotes them, but no numbers.
        """
        mark = re.escape(table.delimiter.encode())
        lines = [re.sub(rb'"[^"]*"', b'"', line) for line in self._sample.top]
        number = re.compile(rb"%b-?\d[\d.]*(?:%b|$)" % (mark, mark))
        cells = [row[0] for row in table.rows[start:] if row]
        is_quoted = all(line.startswith(b'"') for line in lines)
        return is_quoted and any(map(number.search, lines[1:])) and len(set(cells)) == len(cells)

    def _why(self, table: SampleTable, start: int) -> str:
        """Return why the first row of the file is not the header."""
        plain = self._sample.table(table.delimiter, self._sample.marks)
        first = None if plain is None or plain.rows[0] is None else len(plain.rows[0])
        fields = "cannot be read" if first is None else f"has {first} field{'s' * (first != 1)}"
        name = {"\t": "tabs", " ": "spaces"}.get(table.delimiter, f"'{table.delimiter}'")
        quote = table.marks.quote
        within = ""
        if quote != self._sample.dialect.quote:
            within = " without quotes" if quote is None else f" with fields in {quote}"
        if table.marks.escape != self._sample.dialect.escape:
            within = " with \\ as escape"
        return (
            f"{fields}; split at {name}{within}, {table.agreeing(start, table.width)} of the"
            f" {len(table.rows) - start} rows from line {table.lines[start]} on have {table.width}"
        )

    def below_excel_line(self) -> Iterator[Candidate]:
        """Yield the reading below Excel's line."""
        line = EXCEL_LINE.match(self._data)
        table = None if line is None else self._sample.table(line[1].decode("latin-1"))
        if table is not None and len(table.rows) > 1 and table.rows[1]:
            why = "names the delimiter for Excel, and no columns"
            fits = table.fit(1, len(table.rows[1])) == 1
            yield Candidate(table.reading(1), 2.0, why, fits)

    def below_comment(self, able: Sequence[str]) -> Iterator[Candidate]:
        """Yield a reading of the rows below a first line that is a comment, whatever they are."""
        lines = self._sample.top
        bare = self._sample.bare_comment
        marks = (each for each in COMMENTS if lines[0].startswith(each.encode()))
        mark = bare or next(marks, None)
        if mark is None or (bare is None and b" " not in lines[0].rstrip()):
            return
        below = [line for line in lines if not line.startswith(mark.encode())]
        split = {each: sum(each.encode() in line for line in below) for each in able}
        delimiter = max(split, key=lambda each: split[each])
        if 2 * split[delimiter] < len(below):
            delimiter = self._usual
        table = self._sample.table(delimiter, self._sample.marks._replace(comment=mark))
        if table is not None and table.rows and table.rows[0] is not None:
            reading = self._at_top(table, table.reading(0))
            why = "begins as a comment does"
            yield Candidate(reading, 0.4, why, clear=mark == bare, is_best=False)


def head_factor(evidence: HeaderEvidence) -> float:
    """Return the factor of a reading's score for its header."""
    return 0.5 if evidence.looks_like_data else 1.0 if evidence.contrasts else 0.95
