"""Rounds are counted if every item arrives, and refused otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from bench.checksum import expected_checksum
from bench.clients import Client
from bench.rounds import Cores, InvalidRound, check_ddbload_report, run
from bench.shapes import SHAPES
from ddbload.contracts.options import ENGINES
from tests.cli.console import ROOT
from tests.e2e.processes import alive, children, until

CORES = Cores.for_this_machine()
ROWS = 60


@pytest.fixture(autouse=True)
def restore_affinity():
    """Restore the CPU affinity: a round pins the tests' process too."""
    if CORES.others is None:
        yield
        return
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.parametrize("name", [*ENGINES, "batch_writer", "pool"])
def test_round_is_valid_with_every_client(name, sink_process, scenario, make_file):
    path, due = make_file(scenario.shape, ROWS)
    cost = run(Client.parse(name), scenario, path, due, sink_process, CORES)
    assert cost.cpu > 0
    assert cost.peak_mb > 1
    assert cost.requests == 3


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_round_is_valid_with_every_shape(shape, sink_process, scenario, make_file):
    scenario = type(scenario)(shape, scenario.tls, 0.0)
    path, due = make_file(shape, ROWS)
    run(Client.parse("batch_writer"), scenario, path, due, sink_process, CORES)


def test_round_is_refused_with_a_lost_row(sink_process, scenario, make_file):
    path, _ = make_file(scenario.shape, ROWS - 1)
    _, due = make_file(scenario.shape, ROWS)
    with pytest.raises(InvalidRound, match=rf"pool@16, quoted.*{ROWS - 1} of {ROWS} items arrived"):
        run(Client.parse("pool"), scenario, path, due, sink_process, CORES)


def test_round_is_refused_with_a_changed_value(sink_process, scenario, make_file):
    path, due = make_file(scenario.shape, ROWS)
    text = path.read_text("utf-8")
    path.write_text(text.replace("emoji", "emojj", 1), "utf-8")
    assert expected_checksum(path, scenario.shape).items == due.items
    with pytest.raises(InvalidRound, match="differ from the file's"):
        run(Client.parse("pool"), scenario, path, due, sink_process, CORES)


def test_round_is_refused_with_the_stderr_of_a_failed_client(sink_process, scenario, make_file):
    path, due = make_file(scenario.shape, ROWS)
    path.unlink()
    with pytest.raises(InvalidRound, match=r"(?s)ended with 1\n.*FileNotFoundError"):
        run(Client.parse("pool"), scenario, path, due, sink_process, CORES)


def rows(**changed):
    right = {"read": ROWS, "written": ROWS, "rejected": 0, "superseded": 0, "skipped": 0}
    return {"rows": {**right, **changed}}


def test_check_refuses_a_ddbload_report_with_wrong_counts():
    check_ddbload_report("right", rows(), ROWS)
    for changed in (
        {"read": ROWS + 1},
        {"written": ROWS - 1},
        {"rejected": 1},
        {"written": ROWS - 1, "skipped": 1},
    ):
        with pytest.raises(InvalidRound, match="ddbload reports"):
            check_ddbload_report("wrong", rows(**changed), ROWS)


MEASURING = """
import signal, sys
from pathlib import Path
from bench.rounds import Cores, run_measured

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
client = "import subprocess; subprocess.run(['sleep', '60'])"
run_measured([sys.executable, "-c", client], {}, Path(sys.argv[1]), Cores(None, None), 60.0)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_client_and_its_children_end_with_the_process_that_measures_them(number, tmp_path):
    command = [sys.executable, "-c", MEASURING, str(tmp_path)]
    measuring = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)

    def descendants():
        return [pid for each in children(measuring.pid) for pid in (each, *children(each))]

    until(lambda: len(descendants()) == 3, "client, its child or the guard is missing")
    found = descendants()
    measuring.send_signal(number)
    measuring.wait()
    until(lambda: not any(map(alive, found)), f"of {found} some are left")
