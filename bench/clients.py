"""Who is measured: every engine of ours, and what else there is, as commands to run."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.shapes import Shape
from ddbload.contracts.payload import ENGINES

ROOT = Path(__file__).resolve().parent.parent
RIVALS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
"""Has aiobotocore, whose botocore is older than ours."""
TABLE = "bench"
DEFAULT_CONCURRENCY = 16
BASELINE = "batch_writer"
"""Whom all others are compared with."""

_RIVALS = {
    "batch_writer": ("bench.rivals.batch_writer", sys.executable),
    "batch_writer_bare": ("bench.rivals.batch_writer", sys.executable),
    "pool": ("bench.rivals.pool", sys.executable),
    "aiobotocore": ("bench.rivals.aio", str(RIVALS_PYTHON)),
}
_UNCHECKED = "batch_writer_bare"
_SINGLE_REQUEST = ("sync", BASELINE, _UNCHECKED)
_FAST_ENGINES = ("async",)
"""Quick enough to be measured with more rows: the others go through botocore."""


@dataclass(frozen=True, slots=True)
class Client:
    """One that is measured, with so many requests in flight."""

    name: str
    concurrency: int

    @classmethod
    def named(cls, text: str) -> Client:
        """`threads`, or `threads@8`. Raises `ValueError`."""
        name, _, number = text.partition("@")
        if name not in names():
            raise ValueError(f"no client {name}: there are {', '.join(names())}")
        if name in _SINGLE_REQUEST:
            if number not in ("", "1"):
                raise ValueError(f"{name} sends one request at a time")
            return cls(name, 1)
        concurrency = int(number) if number else DEFAULT_CONCURRENCY
        if concurrency < 1:
            raise ValueError(f"{text}: at least one request in flight")
        return cls(name, concurrency)

    @property
    def label(self) -> str:
        """For people, and for `named`."""
        return self.name if self.name in _SINGLE_REQUEST else f"{self.name}@{self.concurrency}"

    @property
    def ours(self) -> bool:
        """Whether it is `ddbload import`."""
        return self.name in ENGINES

    @property
    def quick(self) -> bool:
        """Whether few rows would measure little but its start-up."""
        return self.name in _FAST_ENGINES

    def command(self, file: Path, shape: Shape, folder: Path) -> list[str]:
        """What imports a file. `folder`: for what it wants to keep."""
        if self.ours:
            return self._own(file, shape, folder)
        module, python = _RIVALS[self.name]
        settings = {
            "columns": shape.columns,
            "delimiter": shape.delimiter,
            "header": shape.header,
            "concurrency": self.concurrency,
            "checks": self.name == BASELINE,
        }
        return [python, "-m", module, str(file), TABLE, json.dumps(settings)]

    def _own(self, file: Path, shape: Shape, folder: Path) -> list[str]:
        types = ",".join(f"{name}={kind}" for name, kind in shape.columns.items())
        return [
            *(sys.executable, "-m", "ddbload", "import", str(file), TABLE),
            *("--engine", self.name, "--concurrency", str(self.concurrency)),
            *("--processes", "1", "--json", "--ledger", str(folder), "--types", types),
            *(() if shape.header else ("--columns", ",".join(shape.columns), "--no-header")),
        ]


def names() -> list[str]:
    """All there are: our engines first."""
    return [*ENGINES, *_RIVALS]
