"""Guess at a file's format: the reading, its certainty, and the reasons to doubt it."""

from __future__ import annotations

from dataclasses import dataclass

from ddbload.contracts.column_mapping import shown

_SHOWN_NAMES = 6


@dataclass(frozen=True, slots=True)
class Reading:
    """The columns that a delimiter makes of the sample."""

    delimiter: str
    columns: int
    names: tuple[str, ...] | None
    """Names in the first row; None if it looks like data, which no message may show."""

    def told(self) -> str:
        """Describe the reading in words."""
        columns = "1 column" if self.columns == 1 else f"{self.columns} columns"
        if self.names is None:
            return f"split at {spelled(self.delimiter)} it has {columns}"
        names = ", ".join(map(shown, self.names[:_SHOWN_NAMES]))
        more = ", ..." if len(self.names) > _SHOWN_NAMES else ""
        return f"split at {spelled(self.delimiter)} it has {columns}: {names}{more}"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Reason not to take the first row for a header."""

    why: str
    """Continues a sentence whose subject is the first row; holds nothing of the file."""
    line: int
    """Line of the row that looks like the header, where the sample's first line is 1."""
    comment: str | None = None
    """Comment mark that the first row begins with; empty where the header begins with it, too."""
    advice: str | None = None
    """What to do, if the reason tells more than where the header may be."""
    readings: tuple[Reading, ...] = ()
    """Readings between which the file does not decide."""
    columns: int | None = None
    """Columns of the row at `line` if it looks like data, so that no row names them."""

    def told(self, first_line: int) -> str:
        """Return the reason and what to do.

        The sample begins at line `first_line` of the file.
        """
        if self.advice is not None:
            return f"{self.why}. {self.advice}"
        if self.line == 1:
            return (
                f"{self.why}. Say which delimiter the file has (--delimiter); if it has one column,"
                " name one that does not occur in it, such as --delimiter tab"
            )
        at = first_line + self.line - 1
        right = (
            "if the first row is right, say which delimiter it has (--delimiter), or, if it has one"
            " column, one that does not occur in it, such as --delimiter tab"
        )
        if self.columns is not None:
            return (
                f"{self.why}. The row at line {at} looks like data: say --skip-lines {at - 1}, and"
                f" name the {self.columns} columns (--columns A,B,...) or have them numbered"
                f" (--no-header); {right}"
            )
        comment = ""
        if self.comment:
            comment = f" (or --comment '{self.comment}', if the lines before it are comments)"
        skipped = f"If the header is at line {at}, say --skip-lines {at - 1}{comment}"
        return f"{self.why}. {skipped}; {right}"


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


def typed(delimiter: str) -> str:
    """Write a delimiter as a shell takes it."""
    return {"\t": "tab"}.get(delimiter, f"'{delimiter}'")


def spelled(delimiter: str) -> str:
    return {"\t": "tabs", " ": "spaces"}.get(delimiter, f"'{delimiter}'")
