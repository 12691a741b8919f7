"""Rivals that are compiled here: a program with the AWS SDK for Go v2, and a minimal one in C."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bench.checksum import items_of
from bench.shapes import Shape

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / ".bench-build"
"""Folder for the compiled programs."""
FLOOR, GO = "floor", "go_sdk"
_RIVALS = ROOT / "bench" / "rivals"


def program(name: str) -> Path:
    """Return the path of a compiled rival."""
    return BUILT / name


def build(name: str) -> str | None:
    """Compile a rival; return None, or the reason why that is not possible."""
    tool = {FLOOR: "cc", GO: "go"}[name]
    if shutil.which(tool) is None:
        return f"{tool} was not found on PATH"
    BUILT.mkdir(exist_ok=True)
    to = str(program(name))
    words, folder = {
        FLOOR: (["cc", "-O2", "-o", to, "floor.c", "-lssl", "-lcrypto"], _RIVALS),
        GO: (["go", "build", "-mod=readonly", "-o", to, "."], _RIVALS / "go"),
    }[name]
    built = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if built.returncode:
        lines = built.stderr.strip().splitlines() or [f"status {built.returncode}"]
        return f"{' '.join(words[:2])} failed: {lines[-1]}"
    return None


def bodies_path(file: Path) -> Path:
    """Return the path of a file's encoded requests."""
    return file.with_suffix(".bodies")


def write_bodies(file: Path, shape: Shape, table: str) -> None:
    """Encode a file's rows as the requests that the C program sends, with 25 rows each."""
    with bodies_path(file).open("wb") as out:
        for body in _bodies(file, shape, table):
            out.write(len(body).to_bytes(4, "little") + body)


def _bodies(file: Path, shape: Shape, table: str) -> Iterator[bytes]:
    items = items_of(file, shape)
    while batch := list(islice(items, 25)):
        requests: list[Any] = [{"PutRequest": {"Item": item}} for item in batch]
        request = {"RequestItems": {table: requests}, "ReturnConsumedCapacity": "TOTAL"}
        yield json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()
