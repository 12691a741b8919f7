"""What a conversion came to, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ddbload.cli.causes import Ranked, as_json, told
from ddbload.cli.output import EXIT_DONE, EXIT_FAILED, EXIT_REJECTS
from ddbload.contracts import FAILED, SUCCEEDED, SUCCEEDED_WITH_REJECTS, Counts, Failure


@dataclass(slots=True)
class Outcome:
    """What a conversion came to."""

    out: str
    read_as: str | None
    """How the source was read, in words."""
    rows: Counts
    causes: Ranked
    bytes: int
    seconds: float
    out_parts: int
    out_bytes: int
    rejects: str | None
    error: Failure | None

    @property
    def status(self) -> str:
        """The outcome, in the words of an import's status."""
        if self.error is not None:
            return FAILED
        return SUCCEEDED_WITH_REJECTS if self.rows.rejected else SUCCEEDED

    @property
    def exit_code(self) -> int:
        """As an import's."""
        if self.error is not None:
            return EXIT_FAILED
        return EXIT_REJECTS if self.rows.rejected else EXIT_DONE

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        rate = self.rows.read / self.seconds if self.seconds > 0 else 0.0
        return {
            "status": self.status,
            "read_as": self.read_as,
            "rows": self.rows.to_json(),
            "causes": as_json(self.causes),
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(rate, 1),
            "out": self.out,
            "out_parts": self.out_parts,
            "out_bytes": self.out_bytes,
            "rejects": self.rejects,
            "error": None
            if self.error is None
            else {"name": self.error.name, "message": self.error.message},
        }

    def lines(self, source: str) -> list[str]:
        """The same for a terminal."""
        rows, rate = self.rows, self.rows.read / self.seconds if self.seconds > 0 else 0.0
        rejected = f", {rows.rejected:,} rejected" if rows.rejected else ""
        lines = [
            f"{source}: {'converted' if self.error is None else 'not converted'}",
            f"  read as   {self.read_as}",
            f"  rows      {rows.read:,} read: {rows.written:,} items{rejected}",
            f"  time      {self.seconds:,.1f} s, {rate:,.0f} rows/s, {self.bytes:,} bytes",
        ]
        lines += [
            f"{'  causes    ' if first else ' ' * 12}{told(cause, column)}: {count:,}"
            for first, (cause, column, count) in zip(
                [True, *[False] * len(self.causes)], self.causes, strict=False
            )
        ]
        if self.error is None:
            parts = f", {self.out_parts:,} parts" if self.out_parts > 1 else ""
            lines.append(f"  out       {self.out}, {self.out_bytes:,} bytes{parts}")
        if self.rejects is not None:
            lines.append(f"  rejects   {self.rejects}")
        return lines
