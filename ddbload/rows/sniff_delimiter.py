"""Tells what delimits a file of text, and whether its rows contradict its first one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ddbload.contracts.run_record import Cursor
from ddbload.errors import InvalidPayload
from ddbload.rows.block_splitter import Block
from ddbload.rows.boundaries.plain_boundaries import dialect_boundaries
from ddbload.rows.dialect import Dialect
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_parser import ParsedRow, ParsedRows, RowParser

SAMPLE_BYTES = 64 * 1024
"""How much is looked at, unless a row is longer. Give more than that, where there is more."""

_DELIMITERS = (",", ";", "\t", "|")
_WEAK_DELIMITERS = (":", " ")
"""Texts are full of these: only a header that has what is needed makes them delimiters."""
_UNUSUAL = 0.9
"""A delimiter that so many rows agree about stays, however well another one does."""
_OUTDONE = 0.5
"""A delimiter that fewer rows agree about gives way to one that all agree about."""
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
        """The reason and what to do, for a sample that begins at a line of the file."""
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
    """A guess."""

    format: str
    """csv, tsv, json, dynamodb-json, dynamodb-export or parquet."""
    delimiter: str | None
    """None where the format has none."""
    sure: float
    """From 0, for a mere default, to 1."""
    why: str
    """For people; nothing of the file stands in it but the names of columns that are needed."""
    doubt: Doubt | None = None
    """Set where the rows contradict the first one."""


@dataclass(frozen=True, slots=True)
class _Body:
    """The rows after the first one, as a delimiter splits them."""

    rows: int
    columns: int
    """The most common number of fields; 0 where no row can be read."""
    agreeing: int
    """Rows with that number of fields."""
    split: int
    """Rows with two fields or more; of bad rows the part before the fault counts."""
    line: int
    """Line in the sample of the first row with the most common number of fields."""

    @property
    def is_consistent(self) -> bool:
        """Whether the rows agree about two columns or more."""
        if self.columns < 2 or self.agreeing < 2:
            return False
        return self.agreeing > self.rows / 2 and (
            self.columns > 2 or self.agreeing >= _PAIRS * self.rows
        )


@dataclass(frozen=True, slots=True)
class _Tried:
    """What a delimiter makes of the sample."""

    header: tuple[str, ...]
    """The first row; without any field where it is none."""
    columns: int
    """Fields of the first row; of a bad one as many as most rows have, or as precede the fault."""
    share: float
    """Of the rows, how many have as many fields."""
    agreement: float
    """The same without the bad rows that it splits: they speak neither for it nor against it."""
    rows: int
    torn: bool
    """Whether a quote stands alone in a field: another delimiter may have it open one."""
    body: _Body
    own: int
    """Rows after the first one with as many fields as it has."""

    @property
    def splits(self) -> bool:
        """Whether it splits most rows, or all that can be read of the only one."""
        if not self.body.rows:
            return not self.header and self.columns > 1
        return self.body.split > self.body.rows / 2


class DelimitedSample:
    """The first rows of delimited text."""

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
        self._tried: dict[str, _Tried | None] = {}

    def judge(self, preferred: str) -> GuessedFormat:
        """The delimiter to take, the preferred one where nothing speaks against it."""
        if not self._data.strip():
            return _sniffed(preferred, 0.0, "there is nothing in it")
        able = [each for each in dict.fromkeys((preferred, *_DELIMITERS)) if self._try(each)]
        if not able:
            return _sniffed(preferred, 0.0, "no delimiter makes rows of it")
        having = [each for each in able if self.holds_wanted(each)]
        if self._wanted and not having:
            having = [each for each in _WEAK_DELIMITERS if self._splits_well(each)]
            if not having:
                chosen = self._best(able, preferred)
                if self._columns(chosen) == 1 and not self._has_header(preferred):
                    # What is wrong with the header is to be told of as what it is.
                    chosen = preferred
                names = _names(self._wanted)
                sure = min(0.3, self._sure(chosen, able, []))
                why = f"under no delimiter does the header have {names}"
                return _sniffed(chosen, sure, why, self._doubt(chosen, able))
        chosen = self._doubled(self._best(having or able, preferred))
        sure, why = self._sure(chosen, able, having), self._why(chosen, having)
        return _sniffed(chosen, sure, why, self._doubt(chosen, able))

    def holds_wanted(self, delimiter: str | None) -> bool:
        """Whether all columns that are needed are in the header."""
        tried = None if delimiter is None else self._try(delimiter)
        return tried is not None and bool(self._wanted) and self._wanted <= set(tried.header)

    def _splits_well(self, delimiter: str) -> bool:
        tried = self._try(delimiter)
        return tried is not None and tried.share == 1 and self.holds_wanted(delimiter)

    def _best(self, able: list[str], preferred: str) -> str:
        first = preferred if preferred in able else able[0]
        columns, agreement = self._columns(first), self._agreement(first)
        if self._count is not None and columns == self._count and agreement == 1:
            return first
        torn = self._is_torn(first)
        # Of a header that it does not cut, the comma is hardly the delimiter. Otherwise others
        # must be right for every row, and tell more columns apart.
        is_uncut = columns == 1
        # One that hardly any row agrees with the header about gives way to one that all do.
        is_alone = not self._own(first)
        is_outdone = agreement < _OUTDONE
        enough = 0.5 if self._header and is_uncut else 1.0
        better = [
            each
            for each in able
            if (self._agreement(each) >= enough or (is_uncut and self._splits(each)))
            and (
                (self._columns(each) > columns and (is_uncut or agreement < _UNUSUAL))
                or (is_alone and self._columns(each) > 1)
                or (is_outdone and self._columns(each) > 1 and self._agreement(each) == 1)
                or (torn and self._columns(each) > 1 and not self._is_torn(each))
            )
        ]
        if self._count is not None:
            better = [each for each in able if self._columns(each) == self._count] or better
        if not better:
            return first
        return max(better, key=lambda each: (self._has_header(each), self._agreement(each)))

    def _doubt(self, chosen: str, able: list[str]) -> Doubt | None:
        """Find out whether the rows contradict the first one, unless it names the keys."""
        tried = self._try(chosen)
        if tried is None or not tried.header or self._count or self.holds_wanted(chosen):
            return None
        if tried.columns > 1 and 2 * tried.own >= tried.body.rows:
            return self._comment_doubt(chosen, tried)
        # A first row of one field is outdone by any delimiter that the rows agree about.
        least = 0 if tried.columns == 1 else tried.own
        rivals = [
            (body.agreeing, body.columns, each)
            for each in able
            if (body := self._body(each)).is_consistent and body.agreeing > least
        ]
        if not rivals:
            return self._weak_doubt() if tried.columns == 1 else None
        agreeing, columns, delimiter = max(rivals)
        body = self._body(delimiter)
        fields = "1 field" if tried.columns == 1 else f"{tried.columns} fields"
        why = (
            f"has {fields}; split at {_spelled(delimiter)}, {agreeing} of the {body.rows} rows"
            f" after it have {columns}"
        )
        return Doubt(why, body.line, self._comment_mark(body.line))

    def _weak_doubt(self) -> Doubt | None:
        """Find a weak delimiter that splits every row and the header alike."""
        for delimiter in _WEAK_DELIMITERS:
            tried = self._try(delimiter)
            if tried is None or tried.share < 1 or not tried.body.is_consistent:
                continue
            # Names of people and places are two words; three and more in each row are columns.
            if tried.columns > (2 if delimiter == " " else 1):
                rows = tried.body.rows
                why = (
                    f"has 1 field; split at {_spelled(delimiter)}, it and all {rows} rows after it"
                )
                return Doubt(f"{why} have {tried.columns}", line=1)
        return None

    def _comment_doubt(self, delimiter: str, tried: _Tried) -> Doubt | None:
        """Take the first row for a comment where the second is a header, by the cells below."""
        mark = self._comment_mark(tried.body.line)
        rows = None if mark in (None, "", delimiter) else self._parsed(delimiter)
        if rows is None:
            return None
        second, *others = [each for each in rows.records[1:] if isinstance(each, list)] or [[]]
        cells = zip(*(each for each in others if len(each) == len(second)), strict=True)
        numeric = [all(map(_NUMBER.fullmatch, column)) for column in cells]
        if any(map(_NUMBER.fullmatch, second)) or not all(second) or not any(numeric):
            return None
        why = "begins as a comment does, and the row after it looks like a header"
        return Doubt(why, tried.body.line, mark)

    def _comment_mark(self, header_line: int) -> str | None:
        """The comment mark of the first row; empty where the header would be a comment, too."""
        start = self._data.lstrip()
        mark = next((mark for mark in _COMMENTS if start.startswith(mark.encode())), None)
        header = self._data.splitlines()[header_line - 1 : header_line]
        if mark is not None and header and header[0].lstrip().startswith(mark.encode()):
            return ""
        return mark

    def _body(self, delimiter: str) -> _Body:
        tried = self._try(delimiter)
        assert tried is not None, "it is able to make rows"  # noqa: S101
        return tried.body

    def _doubled(self, delimiter: str) -> str:
        """The delimiter, or twice as much of it where every second column would be nameless."""
        # Commas and semicolons are not written twice to part fields: there a name is missing.
        if delimiter in (",", ";"):
            return delimiter
        tried = self._try(delimiter)
        if not self._header or tried is None or len(tried.header) < 3 or any(tried.header[1::2]):
            return delimiter
        twice = self._try(2 * delimiter)
        if twice is None or twice.share < 1 or twice.header != tried.header[::2]:
            return delimiter
        return 2 * delimiter

    def _has_header(self, delimiter: str) -> bool:
        tried = self._try(delimiter)
        return tried is not None and bool(tried.header)

    def _columns(self, delimiter: str) -> int:
        tried = self._try(delimiter)
        return 0 if tried is None else tried.columns

    def _own(self, delimiter: str) -> int:
        """Count the rows after the first one that agree with it."""
        tried = self._try(delimiter)
        return 0 if tried is None else tried.own

    def _splits(self, delimiter: str) -> bool:
        """Whether it splits most rows of a file that has a header, however they agree."""
        tried = self._try(delimiter)
        return tried is not None and self._header and tried.splits

    def _agreement(self, delimiter: str) -> float:
        tried = self._try(delimiter)
        return 0.0 if tried is None else tried.agreement

    def _is_torn(self, delimiter: str) -> bool:
        tried = self._try(delimiter)
        return tried is not None and tried.torn

    def _sure(self, chosen: str, able: list[str], having: list[str]) -> float:
        tried = self._try(chosen)
        sure = 0.0 if tried is None else tried.share
        if len(having) == 1:
            return round(sure, 2)
        rivals = [
            each
            for each in able
            if each != chosen and self._columns(each) > 1 and self._agreement(each) == 1
        ]
        if rivals or tried is None or tried.rows < 2 or tried.columns == 1:
            # Nothing to compare, or more than one right answer.
            return round(min(sure, 0.5), 2)
        return round(min(sure, 0.9), 2)

    def _why(self, chosen: str, having: list[str]) -> str:
        tried = self._try(chosen)
        assert tried is not None, "only what makes rows is chosen"  # noqa: S101
        agreeing = round(tried.share * tried.rows)
        columns = "1 column" if tried.columns == 1 else f"{tried.columns} columns"
        told = f"{agreeing} of {tried.rows} rows at its start have {columns}"
        if len(having) != 1:
            return told
        return f"under it alone the header has {_names(self._wanted)}; {told}"

    def _try(self, delimiter: str) -> _Tried | None:
        """None where it makes no rows."""
        if delimiter not in self._tried:
            self._tried[delimiter] = self._rows_by(delimiter)
        return self._tried[delimiter]

    def _rows_by(self, delimiter: str) -> _Tried | None:
        parsed = self._parsed(delimiter)
        if parsed is None or not parsed.records:
            return None
        first = parsed.records[0]
        header = () if isinstance(first, Defect) else tuple(first)
        # Bytes that are no text are none under any delimiter, and say nothing.
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
        return _Tried(
            header,
            columns,
            agreeing / len(kept) if kept else 0.0,
            agreeing / len(counted) if counted else 0.0,
            len(kept),
            _has_torn([each for _, each in kept], self._dialect.quote),
            body,
            agreeing - (len(header) == expected),
        )

    def _parsed(self, delimiter: str) -> ParsedRows | None:
        """The sample's rows; None where it cannot be a delimiter: it is the quote, or the like."""
        try:
            dialect = replace(self._dialect, delimiter=delimiter)
        except InvalidPayload:
            return None
        ends = dialect_boundaries(dialect)
        data = self._data[:SAMPLE_BYTES]
        whole = self._whole and len(data) == len(self._data)
        end = len(data) if whole else ends.last(data, final=False)
        if not end:
            # A row that is longer than the sample.
            data = self._data
            end = (0 if self._whole else ends.last(data, final=False)) or len(data)
        return RowParser(dialect, ends).parse(Block(data[:end], Cursor(0, 1)))


def _body_of(rows: ParsedRows, numbered: Sequence[tuple[int, ParsedRow]]) -> _Body:
    """`numbered`: the rows after the first one that are looked at, with their numbers."""
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
    """Fields of a bad row before its fault."""
    if not isinstance(record, Defect) or record.cause == "bad_encoding":
        return 0
    return record.column if isinstance(record.column, int) else 0


def _has_torn(records: list[ParsedRow], quote: str | None) -> bool:
    return quote is not None and any(
        field.count(quote) % 2 for record in records if isinstance(record, list) for field in record
    )


def _sniffed(delimiter: str, sure: float, why: str, doubt: Doubt | None = None) -> GuessedFormat:
    return GuessedFormat("tsv" if delimiter == "\t" else "csv", delimiter, sure, why, doubt)


def _spelled(delimiter: str) -> str:
    return {"\t": "tabs", " ": "spaces"}.get(delimiter, f"'{delimiter}'")


def _names(names: Collection[str]) -> str:
    shown = [repr(name if len(name) <= 60 else name[:57] + "...") for name in sorted(names)]
    return " and ".join(shown)
