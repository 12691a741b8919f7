"""Finds reasons not to take the first row of a text file for its header."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddbload.contracts.dialect import Dialect
from ddbload.rows.format_guess import Doubt, Reading, spelled, typed
from ddbload.rows.header_evidence import COMPARED_ROWS, filled, header_below, header_evidence
from ddbload.rows.reject_lines import Defect
from ddbload.rows.sample_splits import NUMBER_CELL, Body, SampleSplits, Split

WEAK_DELIMITERS = (":", " ")
"""Common in texts, so they count as delimiters only if the header then has the key columns."""
OUTDONE = 0.5
"""Agreement of rows below which a delimiter loses against one that all rows agree about."""
_COMMENTS = ("#", "//", "--", "%", ";")
"""Common beginnings of lines that are comments."""
_ALIKE = 0.05
"""Difference of clean cells up to which two delimiters that fit are alike, so that the file's owner
has to choose."""
_EXCEL_DELIMITER = re.compile(rb'"?sep=([^\r\n])"?(?=[\r\n]|\Z)', re.IGNORECASE)
"""First line by which Excel is told the delimiter."""


class HeaderDoubts:
    """Reasons that the rows of a sample give to doubt the first one."""

    def __init__(self, data: bytes, sample: SampleSplits, *, header: bool, named: bool) -> None:
        """`header`: the first row is a header. `named`: the file's name says the delimiter."""
        self._data, self._sample = data, sample
        self._header, self._named = header, named
        self.rival: str | None = None
        """Delimiter that most rows agree about, if it is a reason."""

    def of_first_row(self, chosen: str, split: Split, able: Sequence[str]) -> Doubt | None:
        """Return why the rows contradict the first one. `able`: delimiters that make rows."""
        told = self._told_to_excel() or self._single_quotes(chosen, split)
        if told is not None:
            return told
        ambiguous = self._ambiguity(chosen, able)
        if ambiguous is not None or not split.header:
            return ambiguous
        swallowed = self._swallowed(chosen, split)
        if swallowed is not None:
            return swallowed
        if split.columns > 1 and 2 * split.own >= split.body.rows:
            return self._comment_doubt(chosen, split) or self._title_doubt(chosen, split)
        # A first row of one field is outdone by any delimiter that the rows agree about.
        least = 0 if split.columns == 1 else split.own
        rivals = [
            (body.agreeing, body.columns, each)
            for each in able
            if (body := self._body(each)).is_consistent and body.agreeing > least
        ]
        if not rivals:
            return self._weak_doubt() if split.columns == 1 else None
        agreeing, columns, delimiter = max(rivals)
        body = self._body(delimiter)
        self.rival = delimiter
        fields = "1 field" if split.columns == 1 else f"{split.columns} fields"
        why = (
            f"has {fields}; split at {spelled(delimiter)}, {agreeing} of the {body.rows} rows"
            f" after it have {columns}"
        )
        count = columns if self._begins_with_data(delimiter, columns) else None
        return Doubt(why, body.line, self._comment_mark(body.line, delimiter), columns=count)

    def _begins_with_data(self, delimiter: str, columns: int) -> bool:
        """Return whether the first of the rows with so many fields, below the first, is data."""
        split = self._sample.by(delimiter)
        rows = [] if split is None else [row for row in split.first[1:] if len(row) == columns]
        return len(rows) > 1 and header_evidence(rows[0], rows[1:]).looks_like_data

    def _told_to_excel(self) -> Doubt | None:
        """Return a doubt if the first line tells Excel the delimiter."""
        line = _EXCEL_DELIMITER.match(self._data)
        if line is None or not self._header:
            return None
        delimiter = typed(line[1].decode("latin-1"))
        advice = f"Say --skip-lines 1 --delimiter {delimiter}"
        return Doubt("tells Excel the delimiter and names no columns", 2, advice=advice)

    def _single_quotes(self, chosen: str, own: Split) -> Doubt | None:
        """Return a doubt if the fields are in single quotes."""
        if self._sample.dialect.quote != Dialect().quote or b"'" not in self._data:
            return None
        split = self._sample.single_quoted.by(chosen)
        if split is None or not split.fits:
            return None
        names = own.header
        if names and all(len(name) > 1 and name[0] == name[-1] == "'" for name in names):
            why = "has its names in single quotes"
        elif own.share < OUTDONE and f"{chosen}'".encode() in self._data:
            why = f"and all after it have {split.columns} fields only if single quotes enclose them"
        else:
            return None
        option = typed(chosen)
        advice = f"""Say --quote "'"; if single quotes are text, --delimiter {option}"""
        return Doubt(why, 1, advice=advice)

    def _ambiguity(self, chosen: str, able: Sequence[str]) -> Doubt | None:
        """Return a doubt if another delimiter fits all rows as well, with cells as clean."""
        own = self._sample.by(chosen)
        if own is None or not own.fits or own.rows < 2 or not self._header or self._named:
            return None
        for each in able:
            split = self._sample.by(each)
            if each in chosen or split is None or not split.fits:
                continue
            if split.clean_share > own.clean_share - _ALIKE:
                readings = (self._reading(chosen, own), self._reading(each, split))
                why = f"can be read in two ways: {readings[0].told()}; {readings[1].told()}"
                options = " or ".join(f"--delimiter {typed(one.delimiter)}" for one in readings)
                return Doubt(why, 1, advice=f"Say which is right: {options}", readings=readings)
        return None

    def _swallowed(self, chosen: str, own: Split) -> Doubt | None:
        """Return a doubt if quotes that are not closed swallow lines, and the file has none."""
        if self._sample.dialect.quote is None or own.fits:
            return None
        split = self._sample.unquoted.by(chosen)
        if split is None or not split.fits or split.rows <= own.rows:
            return None
        rows = self._sample.parsed(chosen)
        last = rows.records[-1] if rows is not None else None
        if isinstance(last, Defect) and last.cause == "unterminated_quote":
            # That fails by itself, and the error says where.
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
        """Return a doubt if a weak delimiter splits every row and the header alike."""
        for delimiter in WEAK_DELIMITERS:
            split = self._sample.by(delimiter)
            if split is None or split.share < 1 or not split.body.is_consistent:
                continue
            # Names of people and places are two words; three and more in each row are columns.
            if split.columns > (2 if delimiter == " " else 1):
                rows = split.body.rows
                why = f"has 1 field; split at {spelled(delimiter)}, it and all {rows} rows after it"
                return Doubt(f"{why} have {split.columns}", line=1)
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
        """Return the comment mark of the first row; empty if the header begins with it, too."""
        start = self._data.lstrip()
        marks = (mark for mark in _COMMENTS if mark != delimiter)
        mark = next((mark for mark in marks if start.startswith(mark.encode())), None)
        header = self._data.splitlines()[header_line - 1 : header_line]
        if mark is not None and header and header[0].lstrip().startswith(mark.encode()):
            return ""
        return mark

    def _body(self, delimiter: str) -> Body:
        split = self._sample.by(delimiter)
        assert split is not None, "the delimiter makes rows"  # noqa: S101
        return split.body
