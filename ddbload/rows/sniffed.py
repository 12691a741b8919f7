"""Result of guessing a file's format and delimiter."""

from __future__ import annotations

from dataclasses import dataclass


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
