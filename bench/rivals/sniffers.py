"""Guess the delimiters of files by other tools: run with a Python that has them.

Reads a JSON list of paths from standard input, and prints one of objects: a delimiter by tool;
null where the tool found one column, `false` where it failed.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import clevercsv
import duckdb
import pandas as pd

SAMPLE_CHARACTERS = 64 * 1024


def text_of(path: str) -> str:
    """Decode a file by its byte order mark; without one it is UTF-8."""
    data = Path(path).read_bytes()
    is_utf_16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    return data.decode("utf-16" if is_utf_16 else "utf-8-sig")[:SAMPLE_CHARACTERS]


def by_duckdb(path: str) -> str | None:
    """Guess by `sniff_csv`."""
    encoding = "utf-16" if Path(path).read_bytes()[:2] == b"\xff\xfe" else "utf-8"
    found = duckdb.execute(
        "SELECT Delimiter FROM sniff_csv(?, encoding = ?)", [path, encoding]
    ).fetchone()
    return None if found is None else found[0]


def by_csv(path: str) -> str | None:
    """Guess by `csv.Sniffer`."""
    return csv.Sniffer().sniff(text_of(path)).delimiter


def by_clevercsv(path: str) -> str | None:
    """Guess by `clevercsv.Sniffer`."""
    found = clevercsv.Sniffer().sniff(text_of(path))
    return None if found is None else found.delimiter or None


def by_pandas(path: str) -> str | None:
    """Guess as `read_csv(sep=None)` does: by `csv.Sniffer`, of the first row."""
    frame = pd.read_csv(path, sep=None, engine="python", encoding_errors="replace", iterator=True)
    return frame._engine.data.dialect.delimiter  # noqa: SLF001 - there is no other way to ask


TOOLS: dict[str, Callable[[str], str | None]] = {
    "DuckDB": by_duckdb,
    "csv.Sniffer": by_csv,
    "CleverCSV": by_clevercsv,
    "pandas": by_pandas,
}


def guess(tool: Callable[[str], str | None], path: str) -> str | bool | None:
    """Guess a file's delimiter by a tool; false where it fails."""
    try:
        return tool(path)
    except Exception:  # noqa: BLE001 - a tool that fails has no guess
        return False


def main() -> None:
    """Print the guesses for the files named on standard input."""
    paths = json.load(sys.stdin)
    guesses = [{name: guess(tool, path) for name, tool in TOOLS.items()} for path in paths]
    json.dump(guesses, sys.stdout)


if __name__ == "__main__":
    main()
