"""Other processes are seen in CPU times; a disturbed way is run again, or refused."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from lab import machine_load
from lab.machine_load import (
    TRIES,
    WINDOWS,
    IdleMachine,
    MachineBusy,
    Others,
    Process,
    Reading,
    read_machine,
)

LAB = 100
QUIET = Reading(
    10.0,
    50.0,
    {
        1: Process(0, "init", 5.0, 9.0),
        LAB: Process(1, "python", 2.0, 1.0),
        101: Process(LAB, "sink", 1.0, 0.0),
        102: Process(101, "helper of it", 0.5, 0.0),
        200: Process(1, "compiler", 7.0, 0.0),
    },
)


def later(reading, seconds, busy, **cpu):
    """The reading after some seconds, in which the machine and processes (by name) worked."""
    processes = {
        pid: replace(each, cpu=each.cpu + cpu.get(each.name, 0.0))
        for pid, each in reading.processes.items()
    }
    return Reading(reading.time + seconds, reading.busy + busy, processes)


def test_what_the_lab_and_its_servers_use_is_no_load():
    end = later(QUIET, 4.0, 6.0, python=2.5, sink=3.5)
    others = Others.between(QUIET, end, LAB)
    assert others == Others(4.0, 0.0, None, 0.0)
    assert others.are_idle


def test_a_way_that_has_ended_is_counted_by_its_parent():
    end = later(QUIET, 4.0, 3.0)
    processes = {**end.processes, LAB: replace(end.processes[LAB], waited=4.0)}
    assert Others.between(QUIET, replace(end, processes=processes), LAB).cpu == 0.0
    # The sink's helper ends, and what it used before is not what others use now.
    del processes[102]
    processes[101] = replace(processes[101], waited=0.5)
    assert Others.between(QUIET, replace(end, processes=processes), LAB).cpu == 0.0


@pytest.mark.parametrize(
    ("used", "are_idle"), [(0.3, True), (0.4, True), (0.5, False), (4.0, False)]
)
def test_others_disturb_above_a_tenth_of_a_core(used, are_idle):
    others = Others.between(QUIET, later(QUIET, 4.0, 2.0 + used, sink=2.0, compiler=used), LAB)
    assert others.cpu == pytest.approx(used)
    assert others.busiest == "compiler (process 200)"
    assert others.are_idle is are_idle


def test_work_that_no_process_here_did_is_load_too():
    others = Others.between(QUIET, later(QUIET, 2.0, 3.0, python=1.0), LAB)
    assert not others.are_idle
    assert str(others) == (
        "other processes used 1.00 cores (not seen from here: another container or machine)"
    )


class Machine:
    """Machine whose others use so many cores in each window between two readings, in turn."""

    def __init__(self, *cores):
        self._cores = iter(cores)
        self._reading = QUIET
        self._is_begin = True
        self.said = []
        self.idle = IdleMachine(self.said.append, self.read, lambda _: None, LAB)

    def read(self):
        if not self._is_begin:
            cores = next(self._cores)
            self._reading = later(self._reading, 2.0, 2 * cores, compiler=2 * cores)
        self._is_begin = not self._is_begin
        return self._reading


def test_way_on_an_idle_machine_is_run_once():
    machine = Machine(0.0, 0.0)
    runs = []
    assert machine.idle.undisturbed("a way", lambda: runs.append(1) or "found") == "found"
    assert (runs, machine.said) == ([1], [])


def test_way_waits_until_the_machine_is_idle():
    machine = Machine(1.0, 0.5, 0.0, 0.0)
    assert machine.idle.undisturbed("a way", lambda: "found") == "found"
    assert next(machine._cores, None) is None


def test_disturbed_way_is_run_again_and_the_last_run_counts():
    machine = Machine(0.0, 0.8, 0.0, 0.0)
    runs = iter(["disturbed", "found"])
    assert machine.idle.undisturbed("a way", lambda: next(runs)) == "found"
    (said,) = machine.said
    assert said == (
        "a way, again: other processes used 0.80 cores (most: compiler (process 200), 0.80)"
        " beside it"
    )


def test_busy_machine_is_refused_before_a_way_and_named():
    machine = Machine(*[1.5] * WINDOWS)
    with pytest.raises(MachineBusy, match=r"^before a way: other processes used 1\.50 cores.*200"):
        machine.idle.undisturbed("a way", lambda: pytest.fail("it was run"))


def test_way_that_is_disturbed_each_time_is_refused():
    machine = Machine(*[0.0, 0.9] * TRIES)
    runs = []
    with pytest.raises(MachineBusy, match=r"3 runs of a way were disturbed: .* 0\.90 .*compiler"):
        machine.idle.undisturbed("a way", lambda: runs.append(1))
    assert len(runs) == TRIES


def test_system_without_cpu_times_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_load, "_PROC", tmp_path)
    with pytest.raises(MachineBusy, match=r"no /proc/stat.*Linux"):
        read_machine()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_readings_have_this_process_and_its_children():
    begin = read_machine()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    end = read_machine()
    assert end.busy >= begin.busy
    mine = end.processes[os.getpid()]
    assert mine.parent == os.getppid()
    assert mine.waited > begin.processes[os.getpid()].waited
