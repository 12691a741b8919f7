"""Splits one row of any dialect into fields, and finds the first fault in a malformed row."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection

from ddbload.contracts.dialect import Dialect
from ddbload.dynamodb.limits import MAX_COLUMNS
from ddbload.rows.boundaries.row_boundaries import repeated
from ddbload.rows.reject_lines import Defect


class EscapeRules:
    """Rules by which a field's text is read: doubled quotes and escaped characters."""

    def __init__(self, quote: str | None, escape: str | None) -> None:
        self._quote = quote or ""
        self._doubled = self._quote * 2
        self.escaped = None
        """Pattern of an escape and the character after it, if there is one."""
        if escape is not None:
            self.escaped = re.compile(rf"{re.escape(escape)}(.?)", re.DOTALL)
            either = rf"{self.escaped.pattern}|{re.escape(self._doubled)}"
            self._either = re.compile(either, re.DOTALL)

    def unquoted(self, field: str) -> str:
        """Return the text of a field without quotes."""
        return field if self.escaped is None else self.escaped.sub(r"\1", field)

    def quoted(self, field: str) -> str:
        """Return the text of a quoted field, given without its quotes."""
        quote = self._quote
        if self.escaped is None:
            return field.replace(self._doubled, quote)
        # One pattern for both: an escaped quote is not the first half of a doubled one.
        return self._either.sub(
            lambda found: quote if found.group(1) is None else found.group(1), field
        )


class RowSplitter:
    """Splitter for rows of one dialect.

    Unquoted fields equal to one of the null `markers` become empty.
    """

    def __init__(self, dialect: Dialect, markers: Collection[str] = ()) -> None:
        self._delimiter = dialect.delimiter
        self._quote = dialect.quote
        self._markers = frozenset(markers)
        delimiter, first = re.escape(dialect.delimiter), re.escape(dialect.delimiter[0])
        escape = "" if dialect.escape is None else re.escape(dialect.escape)
        escaped = [rf"{escape}(?:.|\Z)"] if escape else []
        plain = rf"[^{first}{escape}\r\n]*+"
        inner = "|".join([rf"(?!{delimiter}){first}", *escaped])
        self._unquoted = re.compile(plain + repeated(rf"(?:{inner}){plain}"), re.DOTALL)
        self._escapes = EscapeRules(dialect.quote, dialect.escape)
        if dialect.quote is not None:
            quote = re.escape(dialect.quote)
            plain = rf"[^{quote}{escape}]*+"
            inner = "|".join([quote * 2, *escaped])
            inside = plain + repeated(rf"(?:{inner}){plain}")
            self._quoted = re.compile(rf"{quote}({inside}){quote}", re.DOTALL)

    def split(self, text: str) -> tuple[list[str], Defect | None]:
        """Return the fields of a row, with its line end or without, and its first fault.

        Stops after `MAX_COLUMNS` + 1 fields: no file has a row of more.
        """
        fields: list[str] = []
        defect: Defect | None = None
        position = 0
        while True:
            value, quoted = "", False
            if self._quote is not None and text.startswith(self._quote, position):
                found = self._quoted.match(text, position)
                if found is None:
                    column = len(fields)
                    fields.append(self._escapes.quoted(text[position + 1 :]))
                    return fields, defect or Defect(
                        "unterminated_quote", "the quoted field is not closed", column
                    )
                value, quoted = self._escapes.quoted(found.group(1)), True
                position = found.end()
            found = self._unquoted.match(text, position)
            assert found is not None, "the pattern matches the empty text, too"  # noqa: S101
            rest, position = found.group(), found.end()
            if quoted and rest:
                defect = defect or Defect(
                    "bad_quote",
                    "text after the closing quote; inside a quoted field a quote is doubled",
                    len(fields),
                )
            if quoted or rest not in self._markers:
                if position == len(text) and self._ends_with_escape(rest):
                    defect = defect or Defect(
                        "bad_escape", "the last row ends with an escape", len(fields)
                    )
                rest = self._escapes.unquoted(rest)
            else:
                rest = ""
            fields.append(value + rest)
            if not text.startswith(self._delimiter, position) or len(fields) > MAX_COLUMNS:
                return fields, defect
            position += len(self._delimiter)

    def _ends_with_escape(self, unquoted: str) -> bool:
        """Return whether a field ends with an escape before nothing, or before a line end."""
        if self._escapes.escaped is None:
            return False
        escapes = deque(self._escapes.escaped.finditer(unquoted), maxlen=1)
        return any(
            last.end() == len(unquoted) and last.group(1) in ("", "\r", "\n") for last in escapes
        )
