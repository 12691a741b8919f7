"""Readings of a text file: dialect, rows before the header, and names, as exact options."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ddbload.contracts.column_mapping import Dialect, join_names
from ddbload.contracts.source import Source
from ddbload.errors import NAMES_OF_FILE, AmbiguousDelimiter, BadHeader, DdbloadError
from ddbload.records import Record

_SHOWN_ROWS = 3


class Reading(Record):
    """One way to read a file. Lines count from the sample's first line."""

    delimiter: str
    quote: str | None = Dialect().quote
    escape: str | None = None
    comment: str | None = None
    dialect: str | None = None
    """Name of the dialect that gives delimiter, quote and escape."""
    skip_lines: int = 0
    header: bool = True
    columns: tuple[str, ...] | None = None
    """Names to give, where no row of the file has all of them as they are."""
    pipe: str | None = None
    """Command of a shell that the file must pass first."""
    names: tuple[str, ...] | None = None
    """Names that the columns get; None if their row looks like data."""
    width: int = 1
    """Number of columns."""
    rows: tuple[tuple[str, ...], ...] = ()
    """First rows below the header."""

    def applied_to(self, source: Source) -> Source:
        """Return the source with this dialect. Readings that name columns are never applied."""
        return replace(
            source,
            dialect=self.dialect,
            delimiter=self.delimiter,
            quote=self.quote,
            escape=self.escape,
            comment=self.comment,
            skip_lines=source.skip_lines + self.skip_lines,
            header=self.header,
        )

    def options(self, skipped: int = 0, names: str | None = None) -> list[str]:
        """Return the words of the command line.

        Args:
            skipped: Lines before the sample.
            names: Word in place of the names of `--columns`, which come from the file.
        """
        words = ["--delimiter", {"\t": "tab", " ": "space"}.get(self.delimiter, self.delimiter)]
        if self.quote != Dialect().quote:
            words += ["--quote", self.quote or "none"]
        words += [] if self.escape is None else ["--escape", self.escape]
        if self.dialect is not None:
            words = ["--dialect", self.dialect]
        words += [] if self.comment is None else ["--comment", self.comment]
        if self.skip_lines + skipped:
            words += ["--skip-lines", str(self.skip_lines + skipped)]
        if self.columns is not None:
            words += ["--columns", names or join_names(self.columns)]
        elif not self.header:
            words.append("--no-header")
        return words

    def describe(self, skipped: int = 0) -> str:
        """Describe the options for a message, without any text of the file.

        A row taken for names may be data, and messages are kept in ledgers and logs.
        """
        words = _command(self.options(skipped, NAMES_OF_FILE))
        if self.pipe is not None:
            first, bar, others = self.pipe.partition(" |")
            words = f"{first} < FILE{bar}{others} | ddbload import - TABLE {words}"
        columns = "1 column" if self.width == 1 else f"{self.width} columns"
        return f"{words} ({columns})"

    def to_json(self, skipped: int, *, best: bool) -> dict[str, Any]:
        """Return the options as data, with the first rows that they give."""
        return {
            "options": self.options(skipped),
            **({} if self.pipe is None else {"pipe": self.pipe}),
            "best": best,
            "names": None if self.names is None else list(self.names),
            "rows": [list(row) for row in self.rows[:_SHOWN_ROWS]],
        }


class Doubt(Record):
    """Readings of a file of which the user has to choose one, the best first."""

    why: str
    """Second part of a sentence whose subject is the first row. Quotes nothing of the file."""
    readings: tuple[Reading, ...]
    has_best: bool = True
    """True if the first reading is better than the others."""

    def to_json(self, skipped: int) -> list[dict[str, Any]]:
        """Return the readings as options. `skipped`: lines before the sample."""
        return [
            each.to_json(skipped, best=self.has_best and not place)
            for place, each in enumerate(self.readings)
        ]

    def error(self, where: str, skipped: int) -> DdbloadError:
        """Make the error that refuses the file."""
        described = [each.describe(skipped) for each in self.readings]
        if self.has_best:
            first = f"the first row, {where}, {self.why}. Say {described[0]}"
            others = f"; or, if that is wrong, {'; or '.join(described[1:])}"
            error: DdbloadError = BadHeader(first + (others if described[1:] else ""))
        else:
            error = AmbiguousDelimiter(
                f"the file, from the first row {where}, {self.why}. Say which is right:"
                f" {'; or '.join(described)}"
            )
        error.options = tuple(self.to_json(skipped))
        return error


class GuessedFormat(Record):
    """Guessed format and dialect of a file."""

    format: str
    """csv, tsv, json, dynamodb-json, dynamodb-export or parquet."""
    reading: Reading | None
    """How delimited text is read; None for other formats."""
    sure: float
    """Certainty from 0 (a default) to 1."""
    why: str
    """Reason for people. Of the file it quotes only names of key columns."""
    doubt: Doubt | None = None
    """Other readings, if the reading is not clear; else None."""
    warnings: tuple[str, ...] = ()
    """Warnings of rows that may be none."""

    @property
    def delimiter(self) -> str | None:
        """Delimiter; None for formats without one."""
        return None if self.reading is None else self.reading.delimiter


def _command(words: Sequence[str]) -> str:
    """Quote words for a shell."""
    return " ".join('"\'"' if word == "'" else shlex.quote(word) for word in words)
