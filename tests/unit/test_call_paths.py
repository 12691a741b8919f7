"""Ceilings for the modules that a reader meets on the way of one small file through the steps."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import ddbload
from tests.unit.steps.world import World

ROOT = Path(ddbload.__file__).parent
MOST_OF_PREFLIGHT, MOST_OF_A_CHUNK = 32, 38
"""Modules of ddbload in which a function runs."""


@contextmanager
def called_modules() -> Iterator[set[str]]:
    """Collect the modules of ddbload whose functions are called, in all threads."""
    files: set[str] = set()
    modules: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            files.add(code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield modules
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        found = (Path(file) for file in files)
        modules |= {
            path.relative_to(ROOT).as_posix() for path in found if path.is_relative_to(ROOT)
        }


def modules_of(step: Callable[[], object]) -> set[str]:
    with called_modules() as modules:
        step()
    return modules


def test_steps_of_a_small_csv_call_few_modules():
    world = World(b"id,n\na,1\nb,2\n", types={"n": "N"})
    preflight = modules_of(world.preflight)
    chunk = modules_of(lambda: world.import_one(world.manifest[0]))
    assert len(world.items) == 2
    assert {"steps/preflight.py", "steps/chunker.py", "rows/blocks.py"} <= preflight
    assert {"steps/import_chunk.py", "steps/row_feeder.py", "rows/columns.py"} <= chunk
    assert len(preflight) <= MOST_OF_PREFLIGHT, sorted(preflight)
    assert len(chunk) <= MOST_OF_A_CHUNK, sorted(chunk)
