"""Guesses the delimiter of a text file, and finds a first row that the other rows contradict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ddbload.contracts.dialect import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.contracts.source import CSV, TSV
from ddbload.errors import InvalidPayload
from ddbload.rows.block_splitter import Block
from ddbload.rows.boundaries.plain_boundaries import dialect_boundaries
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_parser import ParsedRow, ParsedRows, RowParser

SNIFFED_BYTES = 64 * 1024
"""Bytes of the sample, unless its first row is longer. The caller may pass more."""

_DELIMITERS = (",", ";", "\t", "|")
_WEAK_DELIMITERS = (":", " ")
"""Common in texts, so they count as delimiters only if the header then has the key columns."""
_UNUSUAL = 0.9
"""Agreement of rows from which the preferred delimiter is kept, however well another does."""
_OUTDONE = 0.5
"""Agreement of rows below which a delimiter loses against one that all rows agree about."""
_PAIRS = 0.8
"""Share of rows that must have two fields to count as consistent. Prose often has one mark a line;
of three fields and more the half is enough."""
_COMMENTS = ("#", "//", "--", "%", ";")
"""Common beginnings of lines that are comments."""
_NUMBER = re.compile(r"\s*[-+]?\d[\d.,:/ T+-]*")
"""Numbers, dates and times: header cells rarely look like one."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Reason not to take the first row for a header."""

    why: str
    """Continues a sentence whose subject is the first row; holds nothing of the file."""
    line: int
    """Line of the row that looks like the header, where the sample's first line is 1."""
    comment: str | None = None
    """Comment mark that the first row begins with; empty where the header begins with it, too."""

    def told(self, first_line: int) -> str:
        """Return the reason and what to do.

        The sample begins at line `first_line` of the file.
        """
        if self.line == 1:
            return (
                f"{self.why}. Say which delimiter the file has (--delimiter); if it has one column,"
                " name one that does not occur in it, such as --delimiter tab"
            )
        at = first_line + self.line - 1
        comment = "--comment" if self.comment is None else f"--comment '{self.comment}'"
        comment = f" (or {comment}, if the lines before it are comments)"
        if self.comment == "":
            comment = ""
        return (
            f"{self.why}. If the header is at line {at}, say --skip-lines {at - 1}{comment}; if the"
            " first row is right, say which delimiter it has (--delimiter), or, if it has one"
            " column, one that does not occur in it, such as --delimiter tab"
        )


@dataclass(frozen=True, slots=True)
class GuessedFormat:
    """Guess at a file's format and delimiter."""

    format: str
    """csv, tsv, json, dynamodb-json, dynamodb-export or parquet."""
    delimiter: str | None
    """None for formats without a delimiter."""
    sure: float
    """Certainty from 0, for a mere default, to 1."""
    why: str
    """Reason to show to people. Of the file it contains nothing but names of key columns."""
    doubt: Doubt | None = None
    """Set where the rows contradict the first one."""


@dataclass(frozen=True, slots=True)
class _Body:
    """The rows after the first one, as one delimiter splits them."""

    rows: int
    columns: int
    """The most common number of fields; 0 where no row can be read."""
    agreeing: int
    """Rows with that number of fields."""
    split: int
    """Rows with two fields or more; of a malformed row the fields before its fault count."""
    line: int
    """Line in the sample of the first row with the most common number of fields."""

    @property
    def is_consistent(self) -> bool:
        """True if the rows agree about two columns or more."""
        if self.columns < 2 or self.agreeing < 2:
            return False
        return self.agreeing > self.rows / 2 and (
            self.columns > 2 or self.agreeing >= _PAIRS * self.rows
        )


@dataclass(frozen=True, slots=True)
class _Split:
    """The sample as one delimiter splits it."""

    header: tuple[str, ...]
    """Fields of the first row; empty if that row is malformed."""
    columns: int
    """Fields of the first row. If that row is malformed: of most rows, or those before its fault.
    """
    share: float
    """Share of rows with as many fields as the first."""
    agreement: float
    """The same share without the malformed rows that are split: they are no evidence either way."""
    rows: int
    has_lone_quote: bool
    """True if a field contains a lone quote: under another delimiter it may open a field."""
    body: _Body
    own: int
    """Rows after the first one with as many fields as it has."""

    @property
    def splits(self) -> bool:
        """True if most rows are split or, in a sample of one malformed row, that row."""
        if not self.body.rows:
            return not self.header and self.columns > 1
        return self.body.split > self.body.rows / 2


class DelimitedSample:
    """The first rows of a text file, split by each possible delimiter."""

    def __init__(
        self,
        data: bytes,
        whole: bool,
        dialect: Dialect,
        wanted: Collection[str],
        header: bool,
        count: int | None,
    ) -> None:
        self._data, self._whole, self._dialect = data, whole, dialect
        self._wanted = frozenset(wanted if header else ())
        self._header = header
        self._count = count
        self._splits_by: dict[str, _Split | None] = {}

    def judge(self, preferred: str) -> GuessedFormat:
        """Return the best delimiter: the preferred one unless the rows speak against it."""
        if not self._data.strip():
            return _sniffed(preferred, 0.0, "there is nothing in it")
        able = [each for each in dict.fromkeys((preferred, *_DELIMITERS)) if self._split_by(each)]
        if not able:
            return _sniffed(preferred, 0.0, "no delimiter makes rows of it")
        having = [each for each in able if self.holds_wanted(each)]
        if self._wanted and not having:
            having = [each for each in _WEAK_DELIMITERS if self._splits_well(each)]
            if not having:
                chosen = self._best(able, preferred)
                if self._columns(chosen) == 1 and not self._has_header(preferred):
                    # Report what is wrong with the header, not that a column is missing.
                    chosen = preferred
                names = _names(self._wanted)
                sure = min(0.3, self._sure(chosen, able, []))
                why = f"under no delimiter does the header have {names}"
                return _sniffed(chosen, sure, why, self._doubt(chosen, able))
        chosen = self._doubled(self._best(having or able, preferred))
        sure, why = self._sure(chosen, able, having), self._why(chosen, having)
        return _sniffed(chosen, sure, why, self._doubt(chosen, able))

    def holds_wanted(self, delimiter: str | None) -> bool:
        """Return whether the header has all key columns under a delimiter."""
        split = None if delimiter is None else self._split_by(delimiter)
        return split is not None and bool(self._wanted) and self._wanted <= set(split.header)

    def _splits_well(self, delimiter: str) -> bool:
        split = self._split_by(delimiter)
        return split is not None and split.share == 1 and self.holds_wanted(delimiter)

    def _best(self, able: list[str], preferred: str) -> str:
        first = preferred if preferred in able else able[0]
        columns, agreement = self._columns(first), self._agreement(first)
        if self._count is not None and columns == self._count and agreement == 1:
            return first
        has_lone_quote = self._has_lone_quote(first)
        # A delimiter that does not split the header is hardly right. If it does, a better one must
        # fit every row, and find more columns.
        is_unsplit = columns == 1
        # A delimiter with few rows like the header loses against one that fits all rows.
        is_alone = not self._own(first)
        is_outdone = agreement < _OUTDONE
        enough = 0.5 if self._header and is_unsplit else 1.0
        better = [
            each
            for each in able
            if (self._agreement(each) >= enough or (is_unsplit and self._splits(each)))
            and (
                (self._columns(each) > columns and (is_unsplit or agreement < _UNUSUAL))
                or (is_alone and self._columns(each) > 1)
                or (is_outdone and self._columns(each) > 1 and self._agreement(each) == 1)
                or (has_lone_quote and self._columns(each) > 1 and not self._has_lone_quote(each))
            )
        ]
        if self._count is not None:
            better = [each for each in able if self._columns(each) == self._count] or better
        if not better:
            return first
        return max(better, key=lambda each: (self._has_header(each), self._agreement(each)))

    def _doubt(self, chosen: str, able: list[str]) -> Doubt | None:
        """Return why the rows contradict the first one, unless that names the key columns."""
        split = self._split_by(chosen)
        if split is None or not split.header or self._count or self.holds_wanted(chosen):
            return None
        if split.columns > 1 and 2 * split.own >= split.body.rows:
            return self._comment_doubt(chosen, split)
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
        fields = "1 field" if split.columns == 1 else f"{split.columns} fields"
        why = (
            f"has {fields}; split at {_spelled(delimiter)}, {agreeing} of the {body.rows} rows"
            f" after it have {columns}"
        )
        return Doubt(why, body.line, self._comment_mark(body.line))

    def _weak_doubt(self) -> Doubt | None:
        """Return a doubt if a weak delimiter splits every row and the header alike."""
        for delimiter in _WEAK_DELIMITERS:
            split = self._split_by(delimiter)
            if split is None or split.share < 1 or not split.body.is_consistent:
                continue
            # Names of people and places are two words; three and more in each row are columns.
            if split.columns > (2 if delimiter == " " else 1):
                rows = split.body.rows
                why = (
                    f"has 1 field; split at {_spelled(delimiter)}, it and all {rows} rows after it"
                )
                return Doubt(f"{why} have {split.columns}", line=1)
        return None

    def _comment_doubt(self, delimiter: str, split: _Split) -> Doubt | None:
        """Return a doubt if the first row looks like a comment, and the second like a header."""
        mark = self._comment_mark(split.body.line)
        rows = None if mark in (None, "", delimiter) else self._parsed(delimiter)
        if rows is None:
            return None
        second, *others = [each for each in rows.records[1:] if isinstance(each, list)] or [[]]
        cells = zip(*(each for each in others if len(each) == len(second)), strict=True)
        numeric = [all(map(_NUMBER.fullmatch, column)) for column in cells]
        if any(map(_NUMBER.fullmatch, second)) or not all(second) or not any(numeric):
            return None
        why = "begins as a comment does, and the row after it looks like a header"
        return Doubt(why, split.body.line, mark)

    def _comment_mark(self, header_line: int) -> str | None:
        """Return the comment mark of the first row; empty if the header begins with it, too."""
        start = self._data.lstrip()
        mark = next((mark for mark in _COMMENTS if start.startswith(mark.encode())), None)
        header = self._data.splitlines()[header_line - 1 : header_line]
        if mark is not None and header and header[0].lstrip().startswith(mark.encode()):
            return ""
        return mark

    def _body(self, delimiter: str) -> _Body:
        split = self._split_by(delimiter)
        assert split is not None, "the delimiter makes rows"  # noqa: S101
        return split.body

    def _doubled(self, delimiter: str) -> str:
        """Return the delimiter doubled where otherwise every second column would have no name."""
        # Nobody doubles commas or semicolons as a delimiter: there, a name is missing.
        if delimiter in (",", ";"):
            return delimiter
        split = self._split_by(delimiter)
        if not self._header or split is None or len(split.header) < 3 or any(split.header[1::2]):
            return delimiter
        twice = self._split_by(2 * delimiter)
        if twice is None or twice.share < 1 or twice.header != split.header[::2]:
            return delimiter
        return 2 * delimiter

    def _has_header(self, delimiter: str) -> bool:
        split = self._split_by(delimiter)
        return split is not None and bool(split.header)

    def _columns(self, delimiter: str) -> int:
        split = self._split_by(delimiter)
        return 0 if split is None else split.columns

    def _own(self, delimiter: str) -> int:
        """Count the rows after the first one that agree with it."""
        split = self._split_by(delimiter)
        return 0 if split is None else split.own

    def _splits(self, delimiter: str) -> bool:
        """Return whether a delimiter splits most rows of a file with a header."""
        split = self._split_by(delimiter)
        return split is not None and self._header and split.splits

    def _agreement(self, delimiter: str) -> float:
        split = self._split_by(delimiter)
        return 0.0 if split is None else split.agreement

    def _has_lone_quote(self, delimiter: str) -> bool:
        split = self._split_by(delimiter)
        return split is not None and split.has_lone_quote

    def _sure(self, chosen: str, able: list[str], having: list[str]) -> float:
        split = self._split_by(chosen)
        sure = 0.0 if split is None else split.share
        if len(having) == 1:
            return round(sure, 2)
        rivals = [
            each
            for each in able
            if each != chosen and self._columns(each) > 1 and self._agreement(each) == 1
        ]
        if rivals or split is None or split.rows < 2 or split.columns == 1:
            # There is nothing to compare, or more than one right answer.
            return round(min(sure, 0.5), 2)
        return round(min(sure, 0.9), 2)

    def _why(self, chosen: str, having: list[str]) -> str:
        split = self._split_by(chosen)
        assert split is not None, "only a delimiter that makes rows is chosen"  # noqa: S101
        agreeing = round(split.share * split.rows)
        columns = "1 column" if split.columns == 1 else f"{split.columns} columns"
        told = f"{agreeing} of {split.rows} rows at its start have {columns}"
        if len(having) != 1:
            return told
        return f"under it alone the header has {_names(self._wanted)}; {told}"

    def _split_by(self, delimiter: str) -> _Split | None:
        """Split the sample by a delimiter, once. None if that makes no rows."""
        if delimiter not in self._splits_by:
            self._splits_by[delimiter] = self._split_rows(delimiter)
        return self._splits_by[delimiter]

    def _split_rows(self, delimiter: str) -> _Split | None:
        parsed = self._parsed(delimiter)
        if parsed is None or not parsed.records:
            return None
        first = parsed.records[0]
        header = () if isinstance(first, Defect) else tuple(first)
        # A row that cannot be decoded fails under every delimiter, so it is no evidence for one.
        kept = [
            (number, each)
            for number, each in enumerate(parsed.records)
            if not (isinstance(each, Defect) and each.cause == "bad_encoding")
        ]
        body = _body_of(parsed, [each for each in kept if each[0]])
        columns = len(header) or body.columns or _fields_before(first) + 1
        expected = self._count or columns
        counted = [each for _, each in kept if isinstance(each, list) or not _fields_before(each)]
        agreeing = sum(isinstance(each, list) and len(each) == expected for each in counted)
        return _Split(
            header,
            columns,
            agreeing / len(kept) if kept else 0.0,
            agreeing / len(counted) if counted else 0.0,
            len(kept),
            _any_lone_quote([each for _, each in kept], self._dialect.quote),
            body,
            agreeing - (len(header) == expected),
        )

    def _parsed(self, delimiter: str) -> ParsedRows | None:
        """Parse the sample; None if this cannot be a delimiter, such as the quote itself."""
        try:
            dialect = replace(self._dialect, delimiter=delimiter)
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


def _body_of(rows: ParsedRows, numbered: Sequence[tuple[int, ParsedRow]]) -> _Body:
    """Count fields of the rows after the first one, given with their numbers."""
    lengths = Counter(len(each) for _, each in numbered if isinstance(each, list))
    split = sum(
        len(each) > 1 if isinstance(each, list) else _fields_before(each) > 0
        for _, each in numbered
    )
    if not lengths:
        return _Body(len(numbered), 0, 0, split, 1)
    columns, agreeing = max(lengths.items(), key=lambda each: (each[1], each[0]))
    found = next(
        number for number, each in numbered if isinstance(each, list) and len(each) == columns
    )
    return _Body(len(numbered), columns, agreeing, split, rows.position(found).line)


def _fields_before(record: ParsedRow) -> int:
    """Count the fields of a malformed row before its fault."""
    if not isinstance(record, Defect) or record.cause == "bad_encoding":
        return 0
    return record.column if isinstance(record.column, int) else 0


def _any_lone_quote(records: list[ParsedRow], quote: str | None) -> bool:
    return quote is not None and any(
        field.count(quote) % 2 for record in records if isinstance(record, list) for field in record
    )


def _sniffed(delimiter: str, sure: float, why: str, doubt: Doubt | None = None) -> GuessedFormat:
    return GuessedFormat(TSV if delimiter == "\t" else CSV, delimiter, sure, why, doubt)


def _spelled(delimiter: str) -> str:
    return {"\t": "tabs", " ": "spaces"}.get(delimiter, f"'{delimiter}'")


def _names(names: Collection[str]) -> str:
    shown = [repr(name if len(name) <= 60 else name[:57] + "...") for name in sorted(names)]
    return " and ".join(shown)
