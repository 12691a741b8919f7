"""Count a run's rejects by cause and column, with a few examples, masked by default."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ddbload.contracts.run_record import RunRecord
from ddbload.write.scheduler.messages import REFUSED_BY_DYNAMODB

EXAMPLES_OF_CAUSE = 3
"""Examples of each cause and column."""
MAX_GROUPS = 200
"""Most pairs of cause and column that are counted apart."""
MAX_BYTES = 128 * 1024 * 1024
"""Bytes of reject lines that are looked at. Of later ones only their number is counted."""
MAX_RAW = 160
"""Characters of a rejected row that an example shows."""
_JSON_PUNCTUATION = '{}[]":,'


@dataclass(frozen=True, slots=True)
class RejectExample:
    """A rejected row."""

    line: int | None
    """None while a chunk before it is not imported: its lines are not counted yet."""
    byte: int
    source: str | None
    detail: str
    row: str
    """The row, masked or not, and shortened."""
    characters: int
    """Characters of the whole row."""


@dataclass(slots=True)
class RejectGroup:
    """Rejects with one cause and column."""

    cause: str
    column: str | None
    rows: int = 0
    examples: list[RejectExample] = field(default_factory=list)


class RejectTally:
    """Rejects by cause and column."""

    def __init__(self, record: RunRecord, *, show_rows: bool = False) -> None:
        """Without `show_rows`, examples are masked when they are added: no row data is kept."""
        self.counted = 0
        """Rejects that are in a group."""
        self.others = 0
        """Rejects that were only counted: there were too many, or their line was damaged."""
        self.masked = not show_rows
        self._groups: dict[tuple[str, str | None], RejectGroup] = {}
        self._bytes_left = MAX_BYTES
        self._known_columns = record.public_names
        self._kept = _structure(record)

    @property
    def groups(self) -> list[RejectGroup]:
        """All groups, the largest first."""
        return sorted(
            self._groups.values(), key=lambda each: (-each.rows, each.cause, each.column or "")
        )

    def add(self, line: bytes) -> None:
        """Count a line of the rejects. Never raises: a damaged line is counted as such."""
        self._bytes_left -= len(line)
        reject = _parsed(line) if self._bytes_left >= 0 else None
        group = None if reject is None else self._group(reject)
        if reject is None or group is None:
            self.others += 1
            return
        self.counted += 1
        group.rows += 1
        if len(group.examples) < EXAMPLES_OF_CAUSE:
            group.examples.append(self._example(reject))

    def leave_out(self, rejected: int) -> None:
        """Count the rejects that an earlier invocation read, of so many in all, as others."""
        self.others = max(self.others, rejected - self.counted)

    def _group(self, reject: dict[str, Any]) -> RejectGroup | None:
        column = reject["column"]
        if self.masked and column not in self._known_columns:
            column = None
        key = (reject["cause"], column)
        group = self._groups.get(key)
        if group is None and len(self._groups) < MAX_GROUPS:
            group = self._groups[key] = RejectGroup(*key)
        return group

    def _example(self, reject: dict[str, Any]) -> RejectExample:
        row, detail = reject["raw"], reject["detail"]
        shown = row[:MAX_RAW]
        if self.masked and reject["cause"] == REFUSED_BY_DYNAMODB:
            detail = "DynamoDB refused the item; its message is with the reject"
        return RejectExample(
            line=reject["line"],
            byte=reject["byte"],
            source=reject.get("source"),
            detail=detail,
            row=mask(shown, self._kept) if self.masked else shown,
            characters=len(row),
        )


def mask(text: str, kept: str) -> str:
    """Replace letters by x, digits by 9 and all others, except characters of `kept`, by a dot."""
    return "".join(
        each if each in kept else "x" if each.isalpha() else "9" if each.isdecimal() else "·"
        for each in text
    )


def _structure(record: RunRecord) -> str:
    """Return the characters that separate a row's cells, which masked rows keep."""
    source = record.payload.source
    if not source.kind.has_columns:
        return _JSON_PUNCTUATION
    marks = (source.delimiter, source.quote or "")
    return "".join(each for mark in marks for each in mark if not each.isalnum())


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        reject = dict(json.loads(line))
        texts = [reject[name] for name in ("cause", "detail", "raw")]
        optional = [reject["column"], reject.get("source")]
        is_whole = isinstance(reject["byte"], int) and isinstance(reject["line"], int | None)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    is_whole = is_whole and all(isinstance(each, str) for each in texts)
    return reject if is_whole and all(isinstance(each, str | None) for each in optional) else None
