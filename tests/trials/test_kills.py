"""SIGKILL at many moments of an import, in each mode, loses no row and counts none twice.

KILL_POINTS says how many in all, KILL_SEED which moments.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from tests.cli.console import Console
from tests.cli.transcript import items, make_table
from tests.e2e.interrupted import FILE, LongRun
from tests.e2e.processes import until
from tests.unit.source.gzip_files import deflate, member

POINTS = int(os.environ.get("KILL_POINTS", "100"))
SEED = int(os.environ.get("KILL_SEED", "1"))
KILLS_A_RUN = 10
ROWS = 4000
KEPT = 700
"""Items that are in the table before the run."""
NUMBERS = count()
UNFINISHED_START = re.compile(
    r"^Traceback .*\n.*\n.*spawn_main\n(?:  .*\n)+EOFError: Ran out of input$", re.MULTILINE
)

Item = dict[str, dict[str, Any]]


def old_item(number: int) -> Item:
    return {"id": {"N": str(number)}, "name": {"S": f"old {number}"}}


def new_item(number: int) -> Item:
    return {"id": {"N": str(number)}, "name": {"S": f"name of {number}"}}


@dataclass(frozen=True)
class Mode:
    """A mode, what the table has before a run, and what must come of it."""

    name: str
    options: tuple[str, ...]
    before: Mapping[int, Item]
    after: Mapping[int, Item]
    counts: Callable[[Mapping[str, int]], bool]
    compressed: bool = False
    quoted: bool = False

    @property
    def by_edges(self) -> bool:
        """True if preflight cuts where windows prove row ends."""
        return "edges" in self.options

    @property
    def label(self) -> str:
        """Return the name of the mode, and what is special about its source."""
        more = {"gzip": self.compressed, "edges": self.by_edges, "quoted": self.quoted}
        return ", ".join([self.name, *(name for name, is_so in more.items() if is_so)])


def _numbered(items_: list[Item]) -> dict[int, Item]:
    return {int(item["id"]["N"]): item for item in items_}


ALL_NEW = _numbered([new_item(number) for number in range(ROWS)])
SOME_OLD = _numbered([old_item(number) for number in range(KEPT)])
OTHERS = _numbered([old_item(ROWS + number) for number in range(KEPT)])

EDGES = ("--scan", "edges", "--max-row-bytes", "200")


def _all_written(rows: Mapping[str, int]) -> bool:
    return (rows["read"], rows["written"]) == (ROWS, ROWS)


def _others_skipped(rows: Mapping[str, int]) -> bool:
    return (rows["read"], rows["written"], rows["skipped"]) == (ROWS, ROWS - KEPT, KEPT)


MODES = [
    Mode("put", (), SOME_OLD, ALL_NEW, _all_written),
    Mode("insert", (), SOME_OLD, ALL_NEW | SOME_OLD, _others_skipped),
    Mode(
        "last-wins",
        ("--position-attribute", "position"),
        {},
        ALL_NEW,
        lambda rows: (rows["read"], rows["written"] + rows["superseded"]) == (2 * ROWS, 2 * ROWS),
    ),
    Mode(
        "delete",
        (),
        SOME_OLD | OTHERS,
        OTHERS,
        _all_written,
    ),
    Mode(
        "put",
        (),
        SOME_OLD,
        ALL_NEW,
        _all_written,
        compressed=True,
    ),
    *(
        Mode(
            name,
            EDGES,
            SOME_OLD,
            after,
            counts,
            compressed=compressed,
            quoted=quoted,
        )
        for name, after, counts, compressed, quoted in (
            ("put", ALL_NEW, _all_written, False, False),
            ("put", ALL_NEW, _all_written, False, True),
            ("insert", ALL_NEW | SOME_OLD, _others_skipped, False, True),
            ("put", ALL_NEW, _all_written, True, True),
        )
    ),
]

CUTS_SMALL_FILES = (
    "from ddbload.contracts import run_record; run_record.INDEX_BYTES = 0;"
    " from ddbload.cli.main import main; main()"
)
"""Program that cuts compressed files of any size."""


class KilledRun(LongRun):
    """Run of one mode that is killed again and again."""

    def __init__(self, console: Console, dynamodb: Any, mode: Mode) -> None:
        table = f"kills-{next(NUMBERS)}"
        make_table(dynamodb, table, "id:N")
        super().__init__(console, dynamodb, table, rows=ROWS)
        self.mode = mode
        self.command += ["--mode", mode.name, *mode.options]
        if mode.name == "last-wins":
            # Each key twice, far apart: the later row is the one that must win.
            lines = [f"{number},first of {number}\n" for number in range(ROWS)]
            lines += [f"{number},name of {number}\n" for number in range(ROWS)]
            console.write(FILE, "".join(["id,name\n", *lines]))
        if mode.quoted:
            # A window shows where rows end by the quotes before a line end.
            lines = [f'{number},"name of {number}"\n' for number in range(ROWS)]
            console.write(FILE, "".join(["id,name\n", *lines]))
        if mode.compressed:
            self.command[:1] = [sys.executable, "-c", CUTS_SMALL_FILES]
            # In blocks of about a chunk.
            path = console.folder / FILE
            text = path.read_bytes()
            raw = deflate(text, flush=zlib.Z_BLOCK, block_bytes=1200)
            path.write_bytes(member(text, raw))
        held = list(mode.before.values())
        for first in range(0, len(held), 25):
            puts = [{"PutRequest": {"Item": item}} for item in held[first : first + 25]]
            dynamodb.batch_write_item(RequestItems={table: puts})

    def killed(self, seconds: float, processes: int) -> bool:
        """Start, and kill the parent after this time; False if it had ended before."""
        with self.started(processes=processes) as running:
            time.sleep(seconds)
            running.kill()
            code = running.process.wait()
            until(lambda: not running.members(), "processes are left")
            # A worker whose parent is killed while Python starts says so before it runs our code.
            assert "Traceback" not in UNFINISHED_START.sub("", running.err.read_text())
        assert code in (0, -signal.SIGKILL), code
        return code != 0

    def completed(self) -> None:
        """Repeat the command, and check counts and table."""
        # One process needs no chunks of a compressed file.
        processes = "2" if self.mode.compressed else "1"
        ended = self.console.run([*map(str, self.command), "--processes", processes, "--json"])
        assert ended.code == 0, ended
        rows = json.loads(ended.out)["rows"]
        assert rows["read"] == sum(rows.values()) - rows["read"]
        assert self.mode.counts(rows), rows
        found = {}
        for item in items(self.dynamodb, self.table):
            item.pop("position", None)
            found[int(item["id"]["N"])] = item
        assert found == self.mode.after


@pytest.mark.timeout(0)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.label)
def test_import_is_exact_after_kills(console, dynamodb, mode):
    rng = random.Random(f"{SEED} {mode.label}")
    killed = 0
    while killed < POINTS / len(MODES):
        run = KilledRun(console, dynamodb, mode)
        for _ in range(KILLS_A_RUN):
            # A process starts within half a second, and writes from then on.
            if not run.killed(rng.uniform(0.0, 1.6), 2 if mode.compressed else rng.choice((1, 2))):
                break
            killed += 1
        run.completed()
        seek = list(run.ledger.glob("runs/*/seek/*.json"))
        assert len(seek) > 20 or not mode.compressed
        if mode.by_edges and not mode.compressed:
            (manifest,) = run.ledger.glob("runs/*/manifest.json")
            groups = json.loads(manifest.read_text())
            # Nobody has counted the lines before a chunk that begins at an edge.
            chunks = [chunk for group in groups for chunk in group["chunks"]]
            assert sum(chunk["first_line"] == 0 for chunk in chunks) > 20
        shutil.rmtree(run.ledger)
        dynamodb.delete_table(TableName=run.table)
