"""Conversions of files whose format is guessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddbload.errors import DdbloadError, NothingWritten
from tests.unit.convert.conversion import Conversion

GUESSED = {"format": "auto", "delimiter": "auto", "encoding": "auto"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The items that a file became, or the error that refused it."""

    items: Sequence[dict[str, Any]] = ()
    rejects: Sequence[dict[str, Any]] = ()
    error: DdbloadError | None = None

    @property
    def refused(self) -> str | None:
        """The error's name."""
        return None if self.error is None else self.error.name

    @property
    def rows(self) -> list[list[str]]:
        """The items' values."""
        return [[next(iter(value.values())) for value in item.values()] for item in self.items]

    @property
    def names(self) -> set[tuple[str, ...]]:
        """The items' attributes."""
        return {tuple(item) for item in self.items}


def converted(
    folder: Path, data: str | bytes, name: str = "data", table: str = "", **source: Any
) -> Outcome:
    """Convert a file whose format, delimiter and encoding are guessed, unless they are given."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return converted_place(str(path), table, **source)


def converted_place(place: str, table: str = "", **source: Any) -> Outcome:
    """Convert a file or a folder."""
    made = Conversion(place, table or None, source={**GUESSED, **source})
    try:
        made.run()
    except NothingWritten:
        # What was rejected, and why, tells more here.
        assert made.rejects
    except DdbloadError as error:
        return Outcome(error=error)
    return Outcome(made.items, made.rejects)
