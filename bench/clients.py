"""Clients to measure, as commands: ddbload's engines and other tools."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.native import FLOOR, GO, bodies_path, program
from bench.shapes import Shape
from ddbload.contracts.options import ENGINES

ROOT = Path(__file__).resolve().parent.parent
RIVALS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
"""Interpreter with aiobotocore, whose botocore is older than ddbload's."""
TABLE = "bench"
DEFAULT_CONCURRENCY = 16
BASELINE = "batch_writer"
"""Client with which all others are compared."""

MADE_UP_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "made-up",
    "AWS_SECRET_ACCESS_KEY": "made-up",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Made-up AWS settings of all measured clients."""

INSERT = "insert"
"""ddbload's fastest engine in mode `insert`."""
_RIVALS = {
    "batch_writer": ("bench.rivals.batch_writer", sys.executable),
    "batch_writer_bare": ("bench.rivals.batch_writer", sys.executable),
    "pool": ("bench.rivals.pool", sys.executable),
    GO: ("", ""),
    FLOOR: ("", ""),
    "aiobotocore": ("bench.rivals.aio", str(RIVALS_PYTHON)),
}
_UNCHECKED = "batch_writer_bare"
_SINGLE_REQUEST = ("sync", BASELINE, _UNCHECKED)
_FAST = ("async", INSERT, FLOOR, GO)
"""Clients measured with more rows, because they bypass botocore."""


@dataclass(frozen=True, slots=True)
class Client:
    """Client with its number of concurrent requests."""

    name: str
    concurrency: int

    @classmethod
    def parse(cls, text: str) -> Client:
        """Parse a client such as `threads` or `threads@8`. Raises `ValueError`."""
        name, _, number = text.partition("@")
        if name not in client_names():
            raise ValueError(f"unknown client {name}: choose from {', '.join(client_names())}")
        if name in _SINGLE_REQUEST:
            if number not in ("", "1"):
                raise ValueError(f"{name} sends one request at a time")
            return cls(name, 1)
        concurrency = int(number) if number else DEFAULT_CONCURRENCY
        if concurrency < 1:
            raise ValueError(f"{text}: the number of concurrent requests must be at least 1")
        return cls(name, concurrency)

    @property
    def label(self) -> str:
        """Text that `parse` accepts."""
        return self.name if self.name in _SINGLE_REQUEST else f"{self.name}@{self.concurrency}"

    @property
    def is_ddbload(self) -> bool:
        """True for an engine of `ddbload import`."""
        return self.name == INSERT or self.name in ENGINES

    @property
    def is_fast(self) -> bool:
        """True if a short file would mostly measure the start-up."""
        return self.name in _FAST

    def command(self, file: Path, shape: Shape, folder: Path) -> list[str]:
        """Build the command that imports a file. `folder`: folder for the client's output."""
        if self.is_ddbload:
            return self._own(file, shape, folder)
        if self.name == FLOOR:
            return [str(program(FLOOR)), str(bodies_path(file)), str(self.concurrency)]
        module, python = _RIVALS[self.name]
        begin = [str(program(GO))] if self.name == GO else [python, "-m", module]
        return [*begin, str(file), TABLE, json.dumps(self.settings(shape))]

    def settings(self, shape: Shape) -> dict[str, Any]:
        """Describe file and client for a program of `bench.rivals`."""
        return {
            "columns": shape.columns,
            "delimiter": shape.delimiter,
            "header": shape.header,
            "concurrency": self.concurrency,
            "checks": self.name == BASELINE,
        }

    def _own(self, file: Path, shape: Shape, folder: Path) -> list[str]:
        types = ",".join(f"{name}={kind}" for name, kind in shape.columns.items())
        return [
            *(sys.executable, "-m", "ddbload", "import", str(file), TABLE),
            *("--engine", "async" if self.name == INSERT else self.name),
            *("--mode", "insert" if self.name == INSERT else "put"),
            *("--concurrency", str(self.concurrency)),
            *("--processes", "1", "--json", "--ledger", str(folder), "--types", types),
            *(() if shape.header else ("--columns", ",".join(shape.columns), "--no-header")),
        ]


def isolated_environment() -> dict[str, str]:
    """Return an environment with made-up AWS settings and without this machine's proxies.

    The caller adds the endpoints that a client may reach.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "PYTHON", "DDBLOAD_"))
        and not name.lower().endswith("_proxy")
    }
    return {**kept, **MADE_UP_SETTINGS}


def client_names() -> list[str]:
    """Return the names of all clients, ddbload's engines first."""
    return [*ENGINES, INSERT, *_RIVALS]
