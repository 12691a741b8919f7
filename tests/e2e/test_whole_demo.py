"""`ddbload demo` deploys, uploads, follows and verifies, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import pytest

from ddbload.deploy import child_process
from tests.cli.console import PROGRAM
from tests.e2e.processes import alive, children, command_of, started, until
from tests.e2e.whole_demo import demo

__all__ = ["demo"]

SLOWLY = 180.0
"""Seconds within which a demo makes progress, even on a busy machine."""


def test_demo_deploys_and_imports_file_with_rejects(demo):
    """The file has quoted line ends, empty keys, odd names and several chunks."""
    rows = ["\ufeffisbn,title,größe"]
    for number in range(4000):
        key = "" if number % 10 == 7 else f"{number:09}"
        rows.append(f'{key},"Vol. {number}, ""é""\r\nand more",{number % 7}')
    rows.append('000000001,"a later row of the same key",1')
    demo.write("meine Bücher+1.csv", "\n".join(rows))
    ended = demo.ddbload("demo", "--file", "meine Bücher+1.csv", "--table-key", "isbn")
    assert ended.code == 3
    progress = re.compile(r"ddbload: (checking the source$|(\w+, )?\d+ % )")
    assert [line for line in ended.err.splitlines() if not progress.match(line)] == []
    assert "/in/meine Bücher+1.csv\n" in ended.out
    assert re.search(r"  rows      4,001 read: 3,60[01] written, 400 rejected", ended.out)
    assert re.search(r"  chunks    ([2-9]) of \1 imported and verified\n", ended.out)
    assert "  rejected  400 for empty_key in isbn, first at line 16\n" in ended.out
    assert ended.out.endswith(
        "verified by a scan: 3,600 items, one for each of the file's 3,600 keys, equal cell by"
        " cell\n"
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_demo_stops_everything_when_interrupted(demo, number):
    """`cdk` is at work."""
    # Ctrl-C may land in the middle of a request, and its socket is open then.
    demo.env["PYTHONWARNINGS"] = "ignore::ResourceWarning"
    with started(demo, [PROGRAM, "demo", "--rows", "40000"]) as running:
        until(lambda: "AWS emulator: " in running.out.read_text("utf-8"), "it is slow", SLOWLY)
        below = descendants(running.pid)
        assert any("localaws" in command_of(pid) for pid in below)
        if number == signal.SIGINT:
            running.ctrl_c()
        else:
            running.kill(number)
        running.process.wait()
        until(lambda: not any(map(alive, below)), "processes are left")
        ended = running.ended()
        assert ended.code == (130 if number == signal.SIGINT else -number)
        # A line of its own, below what the terminal shows for Ctrl-C.
        assert ended.err.lstrip("\n") == (
            "ddbload: interrupted\n" if number == signal.SIGINT else ""
        )
    if number == signal.SIGKILL:
        # Nobody was there to remove it.
        for left in (demo.folder.parent / "tmp").iterdir():
            left.rename(demo.folder / left.name)


def descendants(pid):
    found = children(pid)
    return found + [below for child in found for below in descendants(child)]


def test_child_process_ends_with_all_its_children(tmp_path):
    """Grandchildren end as well, even if they ignore signals."""
    script = f"trap '' INT TERM; sleep 60 & echo $! >{tmp_path}/below; sleep 60"
    process = subprocess.Popen(
        [sys.executable, child_process.__file__, "sh", "-c", script], stdin=subprocess.PIPE
    )
    below = tmp_path / "below"
    until(lambda: below.exists() and below.read_text().strip(), "it does not start")
    began = time.monotonic()
    process.stdin.close()
    process.wait()
    until(lambda: not alive(int(below.read_text())), "a process is left")
    assert time.monotonic() - began < 50
