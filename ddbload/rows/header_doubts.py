"""Guesses of a file's format, and reasons to doubt that its first row is a header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ddbload.contracts.column_mapping import Dialect, shown
from ddbload.rows.blocks import Defect
from ddbload.rows.sample_splits import NUMBER_CELL, SampleSplits, Split

_SHOWN_NAMES = 6


@dataclass(frozen=True, slots=True)
class Reading:
    """Columns of the sample under one delimiter."""

    delimiter: str
    columns: int
    names: tuple[str, ...] | None
    """Names in the first row; None if it looks like data, which messages must not show."""

    def describe(self) -> str:
        """Describe the columns for a message."""
        columns = "1 column" if self.columns == 1 else f"{self.columns} columns"
        described = f"split at {delimiter_name(self.delimiter)} it has {columns}"
        if self.names is None:
            return described
        names = ", ".join(map(shown, self.names[:_SHOWN_NAMES]))
        return f"{described}: {names}{', ...' if len(self.names) > _SHOWN_NAMES else ''}"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Reason not to take the first row as the header."""

    why: str
    """Second part of a sentence whose subject is the first row. Quotes nothing of the file."""
    line: int
    """Line of the row that looks like the header; the sample's first line is 1."""
    comment: str | None = None
    """Comment mark at the start of the first row; empty if the header begins with it, too."""
    advice: str | None = None
    """Advice, if there is more to say than the header's line."""
    readings: tuple[Reading, ...] = ()
    """Possible columns, if the file does not decide between several delimiters."""
    columns: int | None = None
    """Number of columns of the row at `line` if that row looks like data, not names."""

    def describe(self, first_line: int) -> str:
        """Return the reason and the advice.

        `first_line`: line of the file at which the sample begins.
        """
        if self.advice is not None:
            return f"{self.why}. {self.advice}"
        if self.line == 1:
            return (
                f"{self.why}. Say which delimiter the file has (--delimiter); if it has one column,"
                " name one that does not occur in it, such as --delimiter tab"
            )
        at = first_line + self.line - 1
        right = (
            "if the first row is right, say which delimiter it has (--delimiter), or, if it has one"
            " column, one that does not occur in it, such as --delimiter tab"
        )
        if self.columns is not None:
            return (
                f"{self.why}. The row at line {at} looks like data: say --skip-lines {at - 1}, and"
                f" name the {self.columns} columns (--columns A,B,...) or have them numbered"
                f" (--no-header); {right}"
            )
        comment = ""
        if self.comment:
            comment = f" (or --comment '{self.comment}', if the lines before it are comments)"
        skipped = f"If the header is at line {at}, say --skip-lines {at - 1}{comment}"
        return f"{self.why}. {skipped}; {right}"


@dataclass(frozen=True, slots=True)
class GuessedFormat:
    """Guessed format and delimiter of a file."""

    format: str
    """csv, tsv, json, dynamodb-json, dynamodb-export or parquet."""
    delimiter: str | None
    """Delimiter; None for formats without one."""
    sure: float
    """Certainty from 0 (a default) to 1."""
    why: str
    """Reason for people. Of the file it quotes only names of key columns."""
    doubt: Doubt | None = None
    """Doubt, if the rows contradict the first one; else None."""


def shell_delimiter(delimiter: str) -> str:
    """Quote a delimiter for a shell."""
    return {"\t": "tab"}.get(delimiter, f"'{delimiter}'")


def delimiter_name(delimiter: str) -> str:
    """Return the name of a delimiter for a sentence."""
    return {"\t": "tabs", " ": "spaces"}.get(delimiter, f"'{delimiter}'")


COMPARED_ROWS = 50
"""Number of rows that a header is compared with."""
_TITLE_ROWS = 10
"""Rows below a title in which the header is searched."""
_HEADER_ROWS = 5
"""Maximum consecutive rows of names, of which the last and fullest one is the header."""

_NUMBER = re.compile(r"\s*[-+]?[$€£]?\s*(?:\d[\d.,' ]*|[.,]\d+)(?:[eE][-+]?\d+)?\s*%?\s*")
_TIME = re.compile(r"\s*\d{1,4}[-/.:]\d{1,2}(?:[-/.:]\d{1,4})?(?:[ T]\d{1,2}:\d\d[\d:.Z+-]*)?\s*")
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "\\n"}


@dataclass(frozen=True, slots=True)
class HeaderEvidence:
    """Evidence for and against a header in the first row."""

    looks_like_data: bool
    why: str
    """Reason in words. Quotes nothing of the file."""
    contrasts: bool = False
    """True if some column has text in this row, and numbers or dates below it."""


def header_evidence(first: Sequence[str], rows: Sequence[Sequence[str]]) -> HeaderEvidence:
    """Compare a first row with the rows below it that have the same number of fields."""
    rows = [row for row in rows[:COMPARED_ROWS] if len(row) == len(first)]
    named = [place for place, name in enumerate(first) if name.strip()]
    plain = [place for place in named if _is_value(first[place])]
    if named and len(plain) == len(named):
        return HeaderEvidence(True, "each of its fields is a number or a date")
    typed = [place for place in named if _is_typed([row[place] for row in rows])]
    differ = [place for place in typed if place not in plain]
    if typed and not differ:
        return HeaderEvidence(True, "its fields have the types of the rows below")
    again = [
        place
        for place in named
        if place not in typed and sum(row[place] == first[place] for row in rows) > 1
    ]
    if again and 2 * len(again) >= len(named) - len(typed) and not differ:
        return HeaderEvidence(True, "its fields stand in the rows below, too")
    if differ:
        columns = "1 column has" if len(differ) == 1 else f"{len(differ)} columns have"
        return HeaderEvidence(False, f"{columns} numbers or dates below it, and text in it", True)
    if not rows:
        return HeaderEvidence(False, "there is no row to compare it with")
    return HeaderEvidence(False, "nothing speaks against it")


def header_below(first: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    """Find the header row below a first row that looks like a title; None if there is none.

    Titles are padded with delimiters, and of two rows of names the first one has gaps. A header
    must name more columns than the first row.
    """
    named, found, most = filled(first), None, 0
    # The column of row indexes often has no name.
    least = min(2, len(first) - 1)
    if len(first) - named < least:
        return None
    is_apart = False
    for place, row in enumerate(rows[:_TITLE_ROWS]):
        if len(row) != len(first):
            continue
        if found is not None and place - found >= _HEADER_ROWS:
            break
        cells = filled(row)
        is_apart = is_apart or not cells
        gaps = [cell for cell, name in zip(row, first, strict=True) if not name.strip()]
        enough = 1 if named == 1 and is_apart else least
        if filled(gaps) < enough or any(map(_is_no_name, row)):
            continue
        is_title = named == 1 and (len(first) > 2 or is_apart)
        contrasts = header_evidence(row, rows[place + 1 :]).contrasts
        if (contrasts and cells > most) or (is_title and found is None):
            found, most = place, cells
    return found


def filled(row: Sequence[str]) -> int:
    """Count the non-empty cells."""
    return sum(bool(cell.strip()) for cell in row)


def _is_no_name(cell: str) -> bool:
    text = cell.strip()
    return bool(text) and (text.lower() in _MISSING or _is_value(text))


def _is_value(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None or _TIME.fullmatch(text) is not None


def _is_typed(cells: Sequence[str]) -> bool:
    """Return whether all cells are numbers or dates, except missing values."""
    present = [cell for cell in cells if cell.strip().lower() not in _MISSING]
    return bool(present) and all(map(_is_value, present))


WEAK_DELIMITERS = (":", " ")
"""Delimiters common in prose. They count only if the header then has the key columns."""
OUTDONE = 0.5
"""Share of agreeing rows below which a delimiter loses to one under which all rows agree."""
_COMMENTS = ("#", "//", "--", "%", ";")
"""Common comment marks."""
_ALIKE = 0.05
"""Maximum difference in the share of clean cells at which two fitting delimiters count as equal.

The user then has to choose.
"""
_EXCEL_DELIMITER = re.compile(rb'"?sep=([^\r\n])"?(?=[\r\n]|\Z)', re.IGNORECASE)
"""First line that gives Excel the delimiter: `sep=;`."""


class HeaderDoubts:
    """Checks of a sample's rows for reasons to doubt the first row."""

    def __init__(self, data: bytes, sample: SampleSplits, *, header: bool, named: bool) -> None:
        """`header`: the first row is a header. `named`: the file's name implies the delimiter."""
        self._data, self._sample = data, sample
        self._header, self._named = header, named
        self.rival: str | None = None
        """Delimiter under which most rows agree, if that is a reason for doubt."""

    def of_first_row(self, chosen: str, split: Split, able: Sequence[str]) -> Doubt | None:
        """Return why the rows contradict the first one. `able`: delimiters that make rows."""
        certain = self._excel_doubt() or self._single_quotes(chosen, split)
        found = certain or self._ambiguity(chosen, able)
        if found is not None or not split.header:
            return found
        swallowed = self._swallowed(chosen, split)
        if swallowed is not None:
            return swallowed
        if split.columns > 1 and 2 * split.own >= split.body.rows:
            return self._comment_doubt(chosen, split) or self._title_doubt(chosen, split)
        # A first row of one field loses to any delimiter under which the rows agree.
        least = 0 if split.columns == 1 else split.own
        rivals = [
            (body.agreeing, body.columns, each)
            for each in able
            if (body := self._sample.by(each).body).is_consistent and body.agreeing > least
        ]
        if not rivals:
            return self._weak_doubt() if split.columns == 1 else None
        agreeing, columns, delimiter = max(rivals)
        body = self._sample.by(delimiter).body
        self.rival = delimiter
        fields = "1 field" if split.columns == 1 else f"{split.columns} fields"
        why = (
            f"has {fields}; split at {delimiter_name(delimiter)}, {agreeing} of the {body.rows}"
            f" rows after it have {columns}"
        )
        count = columns if self._begins_with_data(delimiter, columns) else None
        return Doubt(why, body.line, self._comment_mark(body.line, delimiter), columns=count)

    def _begins_with_data(self, delimiter: str, columns: int) -> bool:
        """Return whether the first following row with this many fields is data."""
        split = self._sample.by(delimiter)
        rows = [row for row in split.first[1:] if len(row) == columns]
        return len(rows) > 1 and header_evidence(rows[0], rows[1:]).looks_like_data

    def _excel_doubt(self) -> Doubt | None:
        """Return a doubt if the first line is Excel's delimiter line."""
        line = _EXCEL_DELIMITER.match(self._data)
        if line is None or not self._header:
            return None
        delimiter = shell_delimiter(line[1].decode("latin-1"))
        advice = f"Say --skip-lines 1 --delimiter {delimiter}"
        return Doubt("tells Excel the delimiter and names no columns", 2, advice=advice)

    def _single_quotes(self, chosen: str, own: Split) -> Doubt | None:
        """Return a doubt if the fields are in single quotes."""
        if self._sample.dialect.quote != Dialect().quote or b"'" not in self._data:
            return None
        split = self._sample.single_quoted.by(chosen)
        if not split.fits:
            return None
        names = own.header
        if names and all(len(name) > 1 and name[0] == name[-1] == "'" for name in names):
            why = "has its names in single quotes"
        elif own.share < OUTDONE and f"{chosen}'".encode() in self._data:
            why = f"and all after it have {split.columns} fields only if single quotes enclose them"
        else:
            return None
        option = shell_delimiter(chosen)
        advice = f"""Say --quote "'"; if single quotes are text, --delimiter {option}"""
        return Doubt(why, 1, advice=advice)

    def _ambiguity(self, chosen: str, able: Sequence[str]) -> Doubt | None:
        """Return a doubt if another delimiter fits all rows as well, with equally clean cells."""
        own = self._sample.by(chosen)
        if not own.fits or own.rows < 2 or not self._header or self._named:
            return None
        for each in able:
            split = self._sample.by(each)
            if each in chosen or not split.fits:
                continue
            if split.clean_share > own.clean_share - _ALIKE:
                readings = (self._reading(chosen, own), self._reading(each, split))
                why = f"can be read in two ways: {readings[0].describe()}; {readings[1].describe()}"
                options = " or ".join(
                    f"--delimiter {shell_delimiter(one.delimiter)}" for one in readings
                )
                return Doubt(why, 1, advice=f"Say which is right: {options}", readings=readings)
        return None

    def _swallowed(self, chosen: str, own: Split) -> Doubt | None:
        """Return a doubt if unclosed quotes swallow lines in a file without quoted fields."""
        if self._sample.dialect.quote is None or own.fits:
            return None
        split = self._sample.unquoted.by(chosen)
        if not split.fits or split.rows <= own.rows:
            return None
        rows = self._sample.parsed(chosen)
        last = rows.records[-1] if rows is not None else None
        if isinstance(last, Defect) and last.cause == "unterminated_quote":
            # An unclosed quote fails the import anyway, with an error that names the line.
            return None
        why = (
            f"and {split.rows - 1} lines after it have {split.columns} fields each, but quotes that"
            f" are not closed make {own.rows - 1} rows of them"
        )
        return Doubt(why, 1, advice="If the file does not quote its fields, say --quote none")

    def _reading(self, delimiter: str, split: Split) -> Reading:
        header, *rows = split.first
        names = None if header_evidence(header, rows).looks_like_data else header
        return Reading(delimiter, split.columns, names)

    def _weak_doubt(self) -> Doubt | None:
        """Return a doubt if a weak delimiter splits every row like the header."""
        for delimiter in WEAK_DELIMITERS:
            split = self._sample.by(delimiter)
            if split.share < 1 or not split.body.is_consistent:
                continue
            # Names of people and places have two words; three or more in each row are columns.
            if split.columns > (2 if delimiter == " " else 1):
                rows = split.body.rows
                name = delimiter_name(delimiter)
                why = f"has 1 field; split at {name}, it and all {rows} rows after it have"
                return Doubt(f"{why} {split.columns}", line=1)
        return None

    def _comment_doubt(self, delimiter: str, split: Split) -> Doubt | None:
        """Return a doubt if the first row looks like a comment, and the second like a header."""
        mark = self._comment_mark(split.body.line, delimiter)
        rows = None if not mark else self._sample.parsed(delimiter)
        if rows is None:
            return None
        second, *others = [each for each in rows.records[1:] if isinstance(each, list)] or [[]]
        cells = zip(*(each for each in others if len(each) == len(second)), strict=True)
        numeric = [all(map(NUMBER_CELL.fullmatch, column)) for column in cells]
        if any(map(NUMBER_CELL.fullmatch, second)) or not all(second) or not any(numeric):
            return None
        why = "begins as a comment does, and the row after it looks like a header"
        return Doubt(why, split.body.line, mark)

    def _title_doubt(self, delimiter: str, split: Split) -> Doubt | None:
        """Return a doubt if the first row names few columns, and a row below it more."""
        if not self._header or all(split.header):
            return None
        rows = self._sample.parsed(delimiter)
        if rows is None:
            return None
        below = [
            (number, tuple(each))
            for number, each in enumerate(rows.records[1 : COMPARED_ROWS + 1], 1)
            if isinstance(each, list)
        ]
        place = header_below(split.header, [row for _, row in below])
        if place is None:
            return None
        number, row = below[place]
        why = (
            f"names {filled(split.header)} of its {split.columns} columns, and a row below it that"
            f" looks like a header {filled(row)} of them"
        )
        line = rows.position(number).line
        return Doubt(why, line, self._comment_mark(line, delimiter))

    def _comment_mark(self, header_line: int, delimiter: str) -> str | None:
        """Return the first row's comment mark; empty if the header begins with it, too."""
        start = self._data.lstrip()
        marks = (mark for mark in _COMMENTS if mark != delimiter)
        mark = next((mark for mark in marks if start.startswith(mark.encode())), None)
        header = self._data.splitlines()[header_line - 1 : header_line]
        if mark is not None and header and header[0].lstrip().startswith(mark.encode()):
            return ""
        return mark
