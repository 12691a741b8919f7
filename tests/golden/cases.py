"""Reads the golden files and their expected rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.csv_machine import Row

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Golden:
    """One awkward file: its bytes, its dialect and every row in it."""

    name: str
    path: Path
    data: bytes
    delimiter: str
    quote: str | None
    why: str
    rows: list[Row]


def load_all() -> list[Golden]:
    """Return every file of the folder, by name. Raises KeyError where a ``.json`` lacks a field."""
    return [_load(path) for path in sorted(FOLDER.glob("*.[ct]sv"))]


def _load(path: Path) -> Golden:
    expected = json.loads(path.with_suffix(".json").read_text("utf-8"))
    return Golden(
        name=path.stem,
        path=path,
        data=path.read_bytes(),
        delimiter=expected["delimiter"],
        quote=expected["quote"],
        why=expected["why"],
        rows=[Row(**row) for row in expected["rows"]],
    )
