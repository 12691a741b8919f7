"""Count a run's rejects by cause and column, with a few examples, which are masked by default."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import field
from typing import Any

from ddbload.contracts.results import REFUSED_BY_DYNAMODB, TRANSFORM
from ddbload.contracts.run_record import RunRecord
from ddbload.records import MutableRecord
from ddbload.report_page.markup import Content, TableRow, data, element

EXAMPLES_OF_CAUSE = 3
"""Number of examples per cause and column."""
MAX_GROUPS = 200
"""Maximum pairs of cause and column that are counted separately."""
MAX_BYTES = 128 * 1024 * 1024
"""Maximum bytes of reject lines that are read."""
MAX_RAW = 160
"""Maximum characters of a rejected row in an example."""
_JSON_PUNCTUATION = '{}[]":,'


class RejectGroup(MutableRecord):
    """Rejects with the same cause and column."""

    cause: str
    column: str | None
    rows: int = 0
    examples: list[TableRow] = field(default_factory=list)
    """Line, byte, detail and row of the first rejects, as table cells."""


class RejectTally:
    """Counts of rejects by cause and column."""

    def __init__(self, record: RunRecord, *, show_rows: bool = False) -> None:
        """Make an empty tally.

        Without `show_rows`, examples are masked when they are added, so that no row data is kept.
        """
        self.counted = 0
        """Number of rejects that belong to a group."""
        self.masked = not show_rows
        self._groups: dict[tuple[str, str | None], RejectGroup] = {}
        self._bytes_left = MAX_BYTES
        self._known_columns = record.public_names
        # Characters that separate a row's cells, which masking keeps.
        self._kept, source = _JSON_PUNCTUATION, record.payload.source
        if source.kind.has_columns:
            marks = f"{source.delimiter}{source.quote or ''}"
            self._kept = "".join(each for each in marks if not each.isalnum())

    @property
    def groups(self) -> list[RejectGroup]:
        """All groups, the largest first."""
        return sorted(
            self._groups.values(), key=lambda each: (-each.rows, each.cause, each.column or "")
        )

    def add(self, line: bytes) -> None:
        """Count a line of the rejects. Damaged lines are ignored; never raises."""
        self._bytes_left -= len(line)
        if self._bytes_left >= 0:
            with suppress(ValueError, TypeError, LookupError, AttributeError, RecursionError):
                self._count(json.loads(line))

    def _count(self, reject: dict[str, Any]) -> None:
        """Count a reject, unless there are too many groups."""
        cause, column = reject["cause"], reject["column"]
        if self.masked and column not in self._known_columns:
            column = None
        group = self._groups.get((cause, column)) or RejectGroup(cause, column)
        if len(group.examples) < EXAMPLES_OF_CAUSE:
            # Names are encoded, too, because an invalid name must not fail the page.
            data(cause + (column or ""))
            group.examples.append(self._example(reject))
        if group.rows == 0 and len(self._groups) == MAX_GROUPS:
            return
        self._groups[cause, column] = group
        group.rows += 1
        self.counted += 1

    def _example(self, reject: dict[str, Any]) -> TableRow:
        raw, detail, source = reject["raw"], reject["detail"], reject.get("source")
        # The line number is unknown until all earlier chunks are imported.
        line = "-" if reject["line"] is None else f"{reject['line']:,}"
        shown, more = raw[:MAX_RAW], len(raw) - MAX_RAW
        if self.masked:
            shown = mask(shown, self._kept)
            if reject["cause"] in (REFUSED_BY_DYNAMODB, TRANSFORM):
                # Both may quote the row.
                detail = "the message is with the reject"
        why: list[Content] = [data(detail, 200)]
        if source is not None:
            why += [" (", data(source, 120), ")"]
        row = element("code", element("bdi", shown)), f" … ({more:,} more)" if more > 0 else ""
        return line, f"{reject['byte']:,}", why, row


def mask(text: str, kept: str) -> str:
    """Replace letters by x, digits by 9, and other characters outside `kept` by a dot."""
    return "".join(
        each if each in kept else "x" if each.isalpha() else "9" if each.isdecimal() else "·"
        for each in text
    )
