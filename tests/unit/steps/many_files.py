"""Several files of a prefix, and what an import of them comes to."""

from __future__ import annotations

import gzip
import random
from typing import Any

from ddbload.contracts.results import Report
from tests.unit.steps.expected import outcome, status_for
from tests.unit.steps.world import BUCKET, World

HEADER = b"id,a\n"


def files_of(seed: int, count: int, *, compressed: bool = False) -> dict[str, bytes]:
    """Files with keys of their own, some rows bad, some without a last line end, some empty."""
    rng = random.Random(seed)
    files = {}
    for number in range(count):
        rows = [
            rng.choice((b"%d-%d,x\n", b'%d-%d,"y\n"\r\n', b"%d-%d,a,b\n", b"\n%d-%d,\n"))
            % (number, row)
            for row in range(rng.choice((0, 1, 3, 40)))
        ]
        content = HEADER + b"".join(rows)
        if rng.random() < 0.5:
            content = content.removesuffix(b"\n")
        if rng.random() < 0.1:
            content = b""
        packed = compressed and rng.random() < 0.5
        files[f"{number:03d}.csv"] = gzip.compress(content) if packed else content
    return files


def expected(files: dict[str, bytes]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Keys that are written, and rejects with their places."""
    keys, rejects = [], []
    for name, content in sorted(files.items()):
        plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        for row in outcome(plain).rows:
            if row.item is None:
                rejects.append((f"s3://{BUCKET}/many/{name}", row.line, row.byte, row.raw))
            else:
                keys.append(row.item["id"][1])
    return sorted(keys), rejects


def found(world: World) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the outcome of an import in the same form."""
    rejects = [
        tuple(each[name] for name in ("source", "line", "byte", "raw")) for each in world.rejects()
    ]
    return sorted(item["id"]["S"] for item in world.items), rejects


def assert_imported(files: dict[str, bytes], world: World, report: Report) -> None:
    """Check that an import put and rejected the rows of all files, each once."""
    assert report.status == status_for(report.rows)
    keys, rejects = expected(files)
    assert found(world) == (keys, rejects)
    assert report.rows.read == len(keys) + len(rejects)
