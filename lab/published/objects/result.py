"""Duration and result of a way's work."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Work:
    """Elapsed and CPU seconds of the work."""

    seconds: float = 0.0
    cpu: float = 0.0


@contextmanager
def measured() -> Iterator[Work]:
    """Measure the work inside the block."""
    work = Work()
    began, used = time.perf_counter(), time.process_time()
    yield work
    work.seconds, work.cpu = time.perf_counter() - began, time.process_time() - used


def read_keys(path: str) -> list[str]:
    """Read the keys of the objects, one per line."""
    return Path(path).read_text(encoding="utf-8").splitlines()


def print_result(
    work: Work, bodies: Mapping[str, bytes], failures: list[str], **more: float
) -> None:
    """Print times, counts and a checksum of all keys and bodies as JSON."""
    digest = hashlib.sha256()
    for key in sorted(bodies):
        digest.update(key.encode() + b"\0" + bodies[key])
    found = {
        "seconds": work.seconds,
        "cpu": work.cpu,
        "objects": len(bodies),
        "digest": digest.hexdigest(),
        "failures": len(failures),
        "failure": failures[0] if failures else "",
        **more,
    }
    print(json.dumps(found))
