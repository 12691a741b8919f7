"""Parse blocks of whole rows into fields, row by row or column by column.

The standard library's `csv` reader parses blocks of valid, well-quoted UTF-8. It supports only
marks of one character, so a longer mark is replaced by a byte that UTF-8 never contains. It stops
at the first malformed row. So a block with one, or in which such a replacement would not be exact,
is read row by row, and each malformed row becomes a `Defect`.

Columns hold octets: the UTF-8 bytes of a text, each as one Latin-1 character, so that the length of
a `str` is its size in bytes. They take one byte per character in memory for any alphabet, and are
encoded by copying.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import field, replace

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.source import Source
from ddbload.contracts.text_encodings import UTF_8
from ddbload.dynamodb.limits import MAX_COLUMNS
from ddbload.records import MutableRecord
from ddbload.rows.blocks import Block, Defect, RowBoundaries, RowPositions, field_count
from ddbload.rows.dialect_grammar import EscapedLetters, RowSplitter
from ddbload.rows.file_signatures import BYTE_ORDER_MARK, bad_byte

JSON_ESCAPED = bytes(range(0x20)) + b'"\\'
"""Bytes that RFC 8259 requires to be escaped in a JSON string."""

SHORT_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
"""Characters of ordinary text that JSON escapes, with their escapes; the backslash comes first."""
RARELY_ESCAPED = bytes(set(JSON_ESCAPED) - {ord(character) for character, _ in SHORT_ESCAPES})
"""The other bytes of `JSON_ESCAPED`: control characters."""

FILLER = "0"
"""Placeholder for a missing or bad cell, valid for every type."""


class Columns(MutableRecord):
    """Cells of a block's well-formed rows, by column."""

    count: int
    """Number of rows in the block, including malformed ones, without empty lines and comments."""
    cells: list[Sequence[str]]
    """Cells of each column as octets, in the file's order, without those of malformed rows."""
    odd: set[int] = field(default_factory=set)
    """Numbers of the rows that are malformed or have another number of fields."""
    longest: int | None = None
    """Upper bound for the total bytes of a row's cells; None if unknown."""
    plain: bool = False
    """True if it is certain that no cell needs escapes in JSON."""
    lengths: Sequence[int] | None = None
    """Bytes of each row's cells, and one for each delimiter between them; None if unknown."""

    @property
    def height(self) -> int:
        """Number of cells in each column."""
        return self.count - len(self.odd)

    @property
    def numbers(self) -> Sequence[int]:
        """Number in the block of each row that has cells."""
        if not self.odd:
            return range(self.count)
        return [row for row in range(self.count) if row not in self.odd]

    def cells_without(self, rows: Container[int]) -> list[Sequence[str]]:
        """Return each column's cells except those of some rows, given by number."""
        kept = [place for place, row in enumerate(self.numbers) if row not in rows]
        if len(kept) == self.height:
            return self.cells
        return [[column[place] for place in kept] for column in self.cells]


def has_none_of(bad: bytes, data: bytes) -> bool:
    """Return whether data contains none of these bytes."""
    # `bytes.translate` takes a fifth of the time of a regular expression.
    return len(data.translate(None, bad)) == len(data)


def to_octets(text: str) -> str:
    """Return a text's UTF-8 bytes as octets. Raises `UnicodeEncodeError` for a lone surrogate."""
    return text if text.isascii() else text.encode().decode("latin-1")


def from_octets(cell: str) -> str:
    """Return the text of a cell given in octets."""
    return cell if cell.isascii() else cell.encode("latin-1").decode()


SAMPLED_CELLS = 100
"""Cells of a block that show whether most of its texts occur more than once."""
_ONES = bytes.maketrans(b"23456789", b"11111111")
NO_OCTET = "\xff"
"""Character that octets never contain: UTF-8 has no such byte."""


def with_ones(cells: Sequence[str]) -> Sequence[str]:
    """Return cells with a 1 for each digit but zeros, so that many numbers are alike.

    They stay as they are if most occur more than once, or any may have an exponent, whose digits
    count.
    """
    sample, text = cells[:: len(cells) // SAMPLED_CELLS + 1], NO_OCTET.join(cells)
    if len(set(sample)) <= len(sample) // 2 or "e" in text or "E" in text:
        return cells
    return text.encode("latin-1").translate(_ONES).decode("latin-1").split(NO_OCTET)


# Rows are limited by max_row_bytes, so `csv` must not limit fields. Its default is 128 KiB for the
# whole process.
csv.field_size_limit(2**31 - 1)
_STAND_INS = "\xff\xfe\xfd"
"""Bytes that never occur in UTF-8; they replace marks of several bytes for `csv`."""
_MOST_BYTES = 2_000_000
"""Maximum bytes of a block that are split at once if it may have as many fields.

Most blocks are far smaller, but a row of 16 MB may consist only of delimiters.
"""
_UNDECODABLE = re.compile("[\udc80-\udcff]")
"""Invalid bytes, as decoded by `surrogateescape`."""


class _NullMarkers:
    r"""Null markers that contain the escape character, such as `\N`.

    They must be removed before escapes are resolved: afterwards `\N` reads "N".
    """

    def __init__(self, dialect: Dialect, markers: Collection[str]) -> None:
        escape = to_octets(dialect.escape or "")
        texts = map(to_octets, markers if escape else ())
        self.texts = frozenset(each for each in texts if escape in each)
        if not self.texts:
            return
        delimiter = to_octets(dialect.delimiter)
        self._escaped_ends = [f"{escape}{end}" for end in (delimiter, "\r", "\n")]
        self._quote = None if dialect.quote is None else to_octets(dialect.quote)
        self._whole_row = self._between(r"\r\n")
        ends = rf"{re.escape(delimiter)}\r\n"
        self._whole_field = self._between(ends)
        either, mark = "|".join(map(re.escape, self.texts)), re.escape(escape)
        # Escaped characters are matched with all that follow them and the next character, so that
        # an escaped delimiter or line end is never taken for the end of a field before a marker.
        self._whole_field_or_escaped = re.compile(
            rf"(?<![^{ends}])(?:{either})(?![^{ends}])|((?:{mark}[\s\S])++[^{ends}{mark}]?)"
        )
        self._is_short = len(delimiter) == 1
        pairs = re.compile(rf"(?:{mark}[\s\S]|[^{mark}])*+")
        self._is_short_escape = len(escape) == 1 and all(map(pairs.fullmatch, self.texts))

    def _between(self, ends: str) -> re.Pattern[str]:
        # A pattern that begins with literal text is searched fast, so use look-behind instead of a
        # prefix.
        texts = [re.escape(each) for each in self.texts]
        either = "|".join(rf"{each}(?<![^{ends}]{each})" for each in texts)
        return re.compile(rf"(?:{either})(?![^{ends}])")

    def removed_from(self, octets: str) -> str | None:
        """Return the octets without markers; None if only `RowSplitter` can find them."""
        if not any(each in octets for each in self.texts):
            return octets
        # Without its marker, a row of one field would become an empty line and be lost.
        if (
            not self._is_short
            or (self._quote is not None and self._quote in octets)
            or self._whole_row.search(octets) is not None
        ):
            return None
        if not any(each in octets for each in self._escaped_ends):
            return self._whole_field.sub("", octets)
        if self._is_short_escape:
            return self._whole_field_or_escaped.sub(r"\1", octets)
        return None


ParsedRow = list[str] | Defect


class RowParser:
    r"""Parser for blocks of one dialect.

    An unquoted field equal to one of the null `markers` becomes empty. This must be decided before
    escapes are resolved: with a backslash as the escape, the marker `\N` is neither the letter N
    nor the text written `\\N`. Markers without an escape character may be compared later, because
    no other field has the same text.
    """

    def __init__(
        self, dialect: Dialect, ends: RowBoundaries, markers: Collection[str] = ()
    ) -> None:
        self._dialect = dialect
        self._ends = ends
        self._rows = RowSplitter(dialect, markers)
        self._letters = EscapedLetters(dialect)
        self._delimiter = dialect.delimiter.encode(dialect.encoding)
        self._comment = (dialect.comment or "").encode(dialect.encoding)
        self._marks = [
            None if mark is None else to_octets(mark)
            for mark in (dialect.delimiter, dialect.quote, dialect.escape)
        ]
        single = [
            mark if mark is None or len(mark) == 1 else stand_in
            for mark, stand_in in zip(self._marks, _STAND_INS, strict=True)
        ]
        self.delimiter = single[0] or ""
        """Delimiter of one character that separates fields after `with_short_marks`."""
        self._quote, self._escape = single[1:]
        self._replaced = [
            (mark, other)
            for mark, other in zip(self._marks, single, strict=True)
            if mark is not None and other is not None and mark != other
        ]
        self._markers = _NullMarkers(dialect, markers)
        # An escape before the first character of a longer delimiter makes it text. `csv` cannot
        # detect that once the delimiter is replaced.
        several = dialect.escape is not None and len(dialect.delimiter) > 1
        first = f"{dialect.escape}{dialect.delimiter[0]}"
        self._escaped_first = [to_octets(first)] if several else []

    def parse(self, block: Block) -> ParsedRows:
        """Parse the rows of a block, in order, without empty lines and comments."""
        try:
            octets = self.octets(block)
            fields = self.fields(octets)
        except (UnicodeDecodeError, csv.Error):
            return ParsedRows(block, self._ends, self.parse_rows(block))
        if not octets.isascii():
            fields = [list(map(from_octets, row)) for row in fields]
        return ParsedRows(block, self._ends, [*fields])

    def parse_rows(self, block: Block) -> list[ParsedRow]:
        """Parse a block row by row, so that a malformed row does not affect others."""
        return [*map(self.parse_row, self.rows_of(block))]

    def rows_of(self, block: Block) -> Iterator[bytes]:
        """Yield the bytes of each row."""
        return (block.data[start:end] for start, end in self._ends.spans(block.data))

    def parse_row(self, data: bytes) -> ParsedRow:
        """Parse one row, given with or without its line end."""
        encoding = self._dialect.encoding
        fields, defect = self._rows.split(data)
        for column, value in enumerate(fields):
            found = _UNDECODABLE.search(value)
            if found:
                byte = ord(found.group()) - 0xDC00
                name = "UTF-8" if encoding == UTF_8 else encoding
                return Defect("bad_encoding", bad_byte(byte, name), column)
        return defect or fields

    def octets(self, block: Block) -> str:
        """Return a block's text as octets, without comments.

        Raises `UnicodeDecodeError`, and `csv.Error` if splitting its fields at once takes too much
        memory.
        """
        data = block.data
        if len(data) > _MOST_BYTES and data.count(self._delimiter) > MAX_COLUMNS:
            raise csv.Error
        if self._comment and self._comment in data:
            data = b"".join(data[start:end] for start, end in self._ends.spans(data))
        data = self._letters.replaced_in(data)
        if self._dialect.encoding != UTF_8:
            return to_octets(data.decode(self._dialect.encoding))
        if not data.isascii():
            data.decode()
        return data.decode("latin-1")

    def is_bare(self, octets: str) -> bool:
        """Return whether no field is quoted or escaped, so that every line is a row."""
        _, quote, escape = self._marks
        return (quote is None or quote not in octets) and (escape is None or escape not in octets)

    def with_short_marks(self, octets: str) -> str:
        """Return the octets with every longer mark replaced by one character."""
        for mark, other in self._replaced:
            octets = octets.replace(mark, other)
        return octets

    def fields(self, octets: str) -> list[list[str]]:
        """Split octets into rows of fields, without empty lines.

        Raises `csv.Error` if a row is malformed, or if `RowSplitter` may split it differently.
        """
        unmarked = self._markers.removed_from(octets)
        if unmarked is None or any(each in octets for each in self._escaped_first):
            raise csv.Error
        reader = csv.reader(
            io.StringIO(self.with_short_marks(unmarked), newline=""),
            delimiter=self.delimiter,
            quotechar=self._quote,
            escapechar=self._escape,
            quoting=csv.QUOTE_NONE if self._quote is None else csv.QUOTE_MINIMAL,
            strict=True,
        )
        rows = list(reader)
        if [] in rows:
            # `csv` returns an empty list for an empty line.
            rows = [row for row in rows if row]
        if self._replaced and not self.is_bare(unmarked):
            for row in rows:
                whole = "".join(row)
                if any(other in whole for _, other in self._replaced):
                    row[:] = map(self._restored, row)
        return rows

    def _restored(self, cell: str) -> str:
        for mark, other in self._replaced:
            cell = cell.replace(other, mark)
        return cell


class ParsedRows(RowPositions):
    """Parsed rows of a block, and their positions in the source."""

    def __init__(self, block: Block, ends: RowBoundaries, records: list[ParsedRow]) -> None:
        super().__init__(block, ends, len(records))
        self.records = records


def header_names(source: Source, columns: Sequence[str]) -> Sequence[str]:
    """Return the columns that a header of the file names; none if there is no header."""
    return columns if source.header and source.columns is None else ()


_REPEATS_HEADER = Defect(
    "repeats_header", "the row repeats the column names, as where files are joined"
)


class ColumnReader:
    """Reader of blocks as columns, for files whose rows have `count` fields."""

    def __init__(
        self,
        parser: RowParser,
        count: int,
        places: Sequence[int] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """Make a reader for rows of `count` fields.

        `places`: index in the run's columns of each of the object's columns; None if both are
        equal. `names`: the run's columns, if a header names them, so that a row that repeats it is
        rejected.
        """
        self._header = {
            place: name
            for place, name in enumerate(names)
            # The header gives such columns no name.
            if name != f"c{place + 1}" and (places is None or place in places)
        }
        self._rarest = max(self._header, key=lambda place: len(self._header[place]), default=0)
        self._mark = to_octets(self._header.get(self._rarest, ""))
        self._parser = parser
        self._places, self._width = places, count
        self._count = count if places is None else len(places)
        # A line end becomes a separate cell after the last field of each complete row.
        self._line_end_cell = f"{parser.delimiter}\n{parser.delimiter}"
        self._escaped = bytes(set(JSON_ESCAPED) - {ord("\n"), ord(parser.delimiter)})

    def parse_row(self, data: bytes) -> ParsedRow:
        """Parse one row, with or without its line end; return fields in the run's order.

        A header may begin with the byte order mark of a file that was joined to another.
        """
        if self._header and data.startswith(BYTE_ORDER_MARK):
            row = self.parse_row(data.removeprefix(BYTE_ORDER_MARK))
            if row == _REPEATS_HEADER:
                return row
        row, places = self._parser.parse_row(data), self._places
        if places is None:
            return self._unless_header(row)
        if isinstance(row, Defect):
            if isinstance(row.column, int) and row.column < len(places):
                return replace(row, column=places[row.column])
            return replace(row, column=None)
        if len(row) != len(places):
            return field_count(len(row), len(places))
        fields = [""] * self._width
        for place, cell in zip(places, row, strict=True):
            fields[place] = cell
        return self._unless_header(fields)

    def _unless_header(self, row: ParsedRow) -> ParsedRow:
        if isinstance(row, Defect) or len(row) != self._width or not self._header:
            return row
        if any(row[place] != name for place, name in self._header.items()):
            return row
        return _REPEATS_HEADER

    def _without_headers(self, columns: Columns, block: Block) -> Columns:
        """Leave out the rows that repeat the header: they are rejected one by one."""
        has_mark = bool(self._header) and BYTE_ORDER_MARK in block.data
        if not self._header or not (has_mark or self._mark in columns.cells[self._rarest]):
            return columns
        wanted = {place: to_octets(name) for place, name in self._header.items()}
        numbers = columns.numbers
        found = {
            numbers[at]
            for at, cell in enumerate(columns.cells[self._rarest])
            if cell == self._mark
            and all(columns.cells[place][at] == name for place, name in wanted.items())
        }
        for number, row in enumerate(self._parser.rows_of(block) if has_mark else ()):
            if row.startswith(BYTE_ORDER_MARK) and self.parse_row(row) == _REPEATS_HEADER:
                found.add(number)
        cells = columns.cells_without(found) if found else columns.cells
        return replace(columns, cells=cells, odd=columns.odd | found, lengths=None)

    def read(self, block: Block) -> Columns:
        """Read a block's rows as columns in the run's order, without empty lines and comments."""
        try:
            columns = self._read(block)
        except (UnicodeDecodeError, csv.Error):
            records = self._parser.parse_rows(block)
            columns = self._transpose(
                [
                    [] if isinstance(record, Defect) else [to_octets(cell) for cell in record]
                    for record in records
                ],
            )
        if self._places is None:
            return self._without_headers(columns, block)
        cells: list[Sequence[str]] = [("",) * columns.height] * self._width
        for place, column in zip(self._places, columns.cells, strict=True):
            cells[place] = column
        # Delimiters between empty cells count too.
        longest = None if columns.longest is None else columns.longest + self._width
        columns = replace(columns, cells=cells, longest=longest, lengths=None)
        return self._without_headers(columns, block)

    def _read(self, block: Block) -> Columns:
        parser = self._parser
        octets = parser.octets(block)
        if not parser.is_bare(octets):
            return self._transpose(parser.fields(octets))
        if "\r" in octets:
            octets = octets.replace("\r\n", "\n")
            if "\r" in octets:
                return self._transpose(parser.fields(octets))
        octets = parser.with_short_marks(octets)
        lines = octets.split("\n")
        lengths = list(map(len, lines))
        longest = max(lengths)
        cells = self._split_at_once(octets, len(lines) - 1) if octets.endswith("\n") else None
        if cells is None:
            return self._transpose([line.split(parser.delimiter) for line in lines if line])
        # Every replacement above changes the length.
        data = block.data if len(octets) == len(block.data) else octets.encode("latin-1")
        plain = has_none_of(self._escaped, data)
        lengths.pop()
        return Columns(len(lengths), cells, longest=longest, plain=plain, lengths=lengths)

    def _split_at_once(self, octets: str, rows: int) -> list[Sequence[str]] | None:
        """Split all rows by one call; None unless each row has `count` fields."""
        count = self._count
        cells = octets.replace("\n", self._line_end_cell).split(self._parser.delimiter)
        if (
            count < 2
            or len(cells) != rows * (count + 1) + 1
            or cells[count :: count + 1].count("\n") != rows
        ):
            return None
        cells.pop()
        return [cells[place :: count + 1] for place in range(count)]

    def _transpose(self, rows: list[list[str]]) -> Columns:
        """Turn rows into columns. Rows with another number of fields are listed in `odd`."""
        count, total = self._count, len(rows)
        odd: set[int] = set()
        if set(map(len, rows)) != {count}:
            # Do not pad these rows: a row of two bytes may lack a hundred thousand cells.
            odd = {number for number, row in enumerate(rows) if len(row) != count}
            rows = [row for row in rows if len(row) == count]
        cells: list[Sequence[str]] = [*zip(*rows, strict=True)] or [()] * count
        return Columns(total, cells, odd)
