"""Splits well-formed rows into fields, a whole block at a time.

Works on octets: UTF-8 with one character for each byte (`rows.columns`). The standard library's
`csv` reader does the splitting wherever it can. It takes marks of one character only, so a longer
mark is replaced by a byte that UTF-8 never contains. Malformed rows, and blocks in which such a
replacement would not be exact, are left to `RowSplitter`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection

from ddbload.contracts.dialect import UTF_8, Dialect
from ddbload.rows.columns import to_octets
from ddbload.rows.row_boundaries import RowBoundaries

# Rows are limited by max_row_bytes, so `csv` must not add a limit for fields: it is 128 KiB by
# default, and holds for the whole process.
csv.field_size_limit(2**31 - 1)
_STAND_INS = "\xff\xfe\xfd"
"""Bytes that occur in no UTF-8: they replace marks of several bytes, which `csv` does not take."""


class FieldSplitter:
    """Splitter for blocks of one dialect.

    Unquoted fields equal to one of the null `markers` become empty if the marker has an escape in
    it; other markers may stay as they are.
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
        """Delimiter of one character that separates fields after `with_short_marks`."""
        self._quote, self._escape = single[1:]
        self._replaced = [
            (mark, other)
            for mark, other in zip(self._marks, single, strict=True)
            if mark is not None and other is not None and mark != other
        ]
        self._markers = _NullMarkers(dialect, markers)
        # An escape may stand before the first character of a delimiter of several, which then is
        # not a delimiter. `csv` cannot know that once the delimiter is replaced.
        several = dialect.escape is not None and len(dialect.delimiter) > 1
        first = f"{dialect.escape}{dialect.delimiter[0]}"
        self._escaped_first = [to_octets(first)] if several else []

    def octets(self, data: bytes) -> str:
        """Return a block's text as octets, without comments. Raises `UnicodeDecodeError`."""
        if self._comment and self._comment in data:
            data = b"".join(data[start:end] for start, end in self._ends.spans(data))
        if self._dialect.encoding != UTF_8:
            return to_octets(data.decode(self._dialect.encoding))
        if not data.isascii():
            data.decode()
        return data.decode("latin-1")

    def is_bare(self, octets: str) -> bool:
        """Return whether nothing is quoted or escaped, so that every line is a row."""
        _, quote, escape = self._marks
        return (quote is None or quote not in octets) and (escape is None or escape not in octets)

    def with_short_marks(self, octets: str) -> str:
        """Return the octets with every longer mark replaced by one character."""
        for mark, other in self._replaced:
            octets = octets.replace(mark, other)
        return octets

    def fields(self, octets: str) -> list[list[str]]:
        """Split octets into rows of fields, without empty lines.

        Raises `csv.Error` where a row is malformed, or may be read otherwise by `RowSplitter`.
        """
        unmarked = self._markers.removed_from(octets)
        if unmarked is None or any(each in octets for each in self._escaped_first):
            raise csv.Error
        rows = _read_fields(
            self.with_short_marks(unmarked), self.delimiter, self._quote, self._escape
        )
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


class _NullMarkers:
    r"""Null markers that contain the escape character, such as `\N`.

    They have to be replaced by nothing before escapes are resolved: afterwards `\N` reads "N".
    """

    def __init__(self, dialect: Dialect, markers: Collection[str]) -> None:
        escape = dialect.escape
        self.texts = frozenset(to_octets(each) for each in markers if escape and escape in each)
        marks = dialect.delimiter, "\r", "\n"
        self._ambiguous = [to_octets(f"{escape}{mark}") for mark in marks]
        if dialect.quote is not None:
            self._ambiguous.append(to_octets(dialect.quote))
        self._whole_row = self._between(r"\r\n")
        self._whole_field = self._between(rf"{re.escape(to_octets(dialect.delimiter))}\r\n")
        self._is_short = len(to_octets(dialect.delimiter)) == 1

    def _between(self, ends: str) -> re.Pattern[str]:
        # A pattern that begins with literal text is searched for fast, so look behind, not ahead.
        texts = [re.escape(each) for each in self.texts]
        either = "|".join(rf"{each}(?<![^{ends}]{each})" for each in texts)
        return re.compile(rf"(?:{either})(?![^{ends}])")

    def removed_from(self, octets: str) -> str | None:
        """Return the octets without markers; None where only `RowSplitter` can find them."""
        if not any(each in octets for each in self.texts):
            return octets
        # Without its marker a row of one field would be an empty line, and get lost.
        if (
            not self._is_short
            or any(each in octets for each in self._ambiguous)
            or self._whole_row.search(octets) is not None
        ):
            return None
        return self._whole_field.sub("", octets)


def _read_fields(
    octets: str, delimiter: str, quote: str | None, escape: str | None
) -> list[list[str]]:
    reader = csv.reader(
        io.StringIO(octets, newline=""),
        delimiter=delimiter,
        quotechar=quote,
        escapechar=escape,
        quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
        strict=True,
    )
    rows = list(reader)
    # `csv` returns an empty list for an empty line.
    return [row for row in rows if row] if [] in rows else rows
