"""The fields of well-formed rows, all at once, as *octets*.

Octets are UTF-8 with a character for each byte, as in Latin-1: so a text of any alphabet takes
one byte a character, its length is its size, and it is encoded by copying it.

The standard library's reader takes rows apart wherever it can. It knows marks of one character:
a longer one gives its place to a byte that UTF-8 has no use for. Where that would not be exact,
a regular expression takes field after field. Rows that are not well-formed are the parser's.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection
from dataclasses import replace

from ddbload.rows.boundaries.general_boundaries import Grammar
from ddbload.rows.boundaries.row_boundaries import RowBoundaries
from ddbload.rows.dialect import UTF_8, Dialect
from ddbload.rows.octets import to_octets
from ddbload.rows.row_splitter import EscapeRules

# A row's length is bounded by max_row_bytes; the reader's own limit for a field, 128 KiB by
# default and for the whole process, would only be in the way.
csv.field_size_limit(2**31 - 1)
_STAND_INS = "\xff\xfe\xfd"


class FieldSplitter:
    """Takes blocks of one dialect apart.

    `markers`: unquoted fields that are null. Those with an escape in them become empty here; the
    others may stay as they are.
    """

    def __init__(
        self, dialect: Dialect, ends: RowBoundaries, markers: Collection[str] = ()
    ) -> None:
        self._dialect = dialect
        self._ends = ends
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
        """What parts fields after `replaced`."""
        self._quote, self._escape = single[1:]
        self._replaced = [
            (mark, other)
            for mark, other in zip(self._marks, single, strict=True)
            if mark is not None and other is not None and mark != other
        ]
        self._markers = _Markers(dialect, markers)
        # Where a delimiter is escaped, a part of it may be.
        several = dialect.escape is not None and len(dialect.delimiter) > 1
        self._torn = [to_octets(f"{dialect.escape}{dialect.delimiter[0]}")] if several else []
        self._pattern: re.Pattern[str] | None = None

    def octets(self, data: bytes) -> str:
        """A block's text, without comments. Raises `UnicodeDecodeError`."""
        if self._comment and self._comment in data:
            data = b"".join(data[start:end] for start, end in self._ends.spans(data))
        if self._dialect.encoding != UTF_8:
            return to_octets(data.decode(self._dialect.encoding))
        if not data.isascii():
            data.decode()
        return data.decode("latin-1")

    def is_bare(self, said: str) -> bool:
        """Whether nothing is quoted or escaped there: lines are rows."""
        _, quote, escape = self._marks
        return (quote is None or quote not in said) and (escape is None or escape not in said)

    def replaced(self, said: str) -> str:
        """The octets with a delimiter of one character."""
        for mark, other in self._replaced:
            said = said.replace(mark, other)
        return said

    def fields(self, said: str) -> list[list[str]]:
        """The fields of each row, empty lines left out. Raises `csv.Error` for a bad row."""
        bare = self._markers.dropped(said)
        if bare is None or any(each in said for each in self._torn):
            return self._by_pattern(said)
        said = bare
        rows = _read_fields(self.replaced(said), self.delimiter, self._quote, self._escape)
        if self._replaced and not self.is_bare(said):
            for row in rows:
                whole = "".join(row)
                if any(other in whole for _, other in self._replaced):
                    row[:] = map(self._restored, row)
        return rows

    def _restored(self, cell: str) -> str:
        for mark, other in self._replaced:
            cell = cell.replace(other, mark)
        return cell

    def _by_pattern(self, said: str) -> list[list[str]]:
        if self._pattern is None:
            grammar = Grammar(replace(self._dialect, encoding=UTF_8))
            one = rb"%b(%b)(%b|\r\n?+|\n|\Z)|(.)"
            pattern = one % (grammar.quoted_or_not, grammar.unquoted, grammar.delimiter)
            self._pattern = re.compile(pattern.decode("latin-1"), re.DOTALL)
        delimiter, quote, escape = self._marks
        escapes, marks = EscapeRules(quote, escape), len(quote or "")
        # No unquoted field has a line end that is not escaped.
        escape = escape or "\n"
        rows: list[list[str]] = []
        row: list[str] = []
        for quoted, unquoted, end, unclosed in self._pattern.findall(said):
            value = unquoted
            if quoted:
                if unquoted:
                    raise csv.Error
                value = escapes.quoted(quoted[marks:-marks])
            elif escape in unquoted:
                if not end:
                    # What the last row ends with, the parser knows better.
                    raise csv.Error
                value = "" if unquoted in self._markers.texts else escapes.unquoted(unquoted)
            if end == delimiter:
                row.append(value)
            elif unclosed:
                raise csv.Error
            elif row or quoted or unquoted:
                row.append(value)
                rows.append(row)
                row = []
        return rows


class _Markers:
    """Null markers with an escape in them: they are no longer there when that is resolved."""

    def __init__(self, dialect: Dialect, markers: Collection[str]) -> None:
        escape = dialect.escape
        self.texts = frozenset(to_octets(each) for each in markers if escape and escape in each)
        marks = dialect.delimiter, "\r", "\n"
        self._unsure = [to_octets(f"{escape}{mark}") for mark in marks]
        if dialect.quote is not None:
            self._unsure.append(to_octets(dialect.quote))
        self._line = self._between(r"\r\n")
        self._field = self._between(rf"{re.escape(to_octets(dialect.delimiter))}\r\n")
        self._is_sure = len(to_octets(dialect.delimiter)) == 1

    def _between(self, ends: str) -> re.Pattern[str]:
        # Markers first: a search for a text that a pattern begins with is fast.
        texts = [re.escape(each) for each in self.texts]
        either = "|".join(rf"{each}(?<![^{ends}]{each})" for each in texts)
        return re.compile(rf"(?:{either})(?![^{ends}])")

    def dropped(self, said: str) -> str | None:
        """The octets without the markers. None where what is a field only the pattern knows."""
        if not any(each in said for each in self.texts):
            return said
        # A row of nothing but a marker would be none.
        if (
            not self._is_sure
            or any(each in said for each in self._unsure)
            or self._line.search(said) is not None
        ):
            return None
        return self._field.sub("", said)


def _read_fields(
    said: str, delimiter: str, quote: str | None, escape: str | None
) -> list[list[str]]:
    reader = csv.reader(
        io.StringIO(said, newline=""),
        delimiter=delimiter,
        quotechar=quote,
        escapechar=escape,
        quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
        strict=True,
    )
    rows = list(reader)
    # An empty line is not a row.
    return [row for row in rows if row] if [] in rows else rows
