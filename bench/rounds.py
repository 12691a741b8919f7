"""Run a client on a file as a process, check that every item arrived, and return its cost."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.checksum import ItemChecksum
from bench.clients import ROOT, TABLE, Client, isolated_environment
from bench.shapes import Shape
from localaws.processes import end_process, group_killed_at_end

TIMEOUT_SECONDS = 3600.0
"""Default limit for a client's process, after which the run ends with an error."""
_POLL_SECONDS = 0.01


class InvalidRound(Exception):
    """Raised for a round in which items are missing or changed."""


_Each = TypeVar("_Each")


def rotated(everything: Sequence[_Each], turn: int) -> list[_Each]:
    """Return the order of variants in a round. Each round begins with another variant."""
    first = turn % len(everything)
    return [*everything[first:], *everything[:first]]


def described_machine() -> str:
    """Describe Python, processor, cores and load, for a heading."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    busy = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return f"{python}, {platform.machine()}, {busy}"


@dataclass(frozen=True, slots=True)
class Cores:
    """CPU cores: one for the client alone, another for all other processes if there are two."""

    client: int | None
    others: int | None

    @classmethod
    def for_this_machine(cls) -> Cores:
        """Choose the last core for the client, and the first for the sink and this process."""
        if not hasattr(os, "sched_setaffinity"):
            return cls(None, None)
        there = sorted(os.sched_getaffinity(0))
        return cls(there[-1], there[0])

    @contextmanager
    def reserved(self) -> Iterator[None]:
        """Keep this process off the client's core inside the block."""
        if self.others is None:
            yield
            return
        before = os.sched_getaffinity(0)
        self.pin(self.others)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def pin(self, core: int | None) -> None:
        """Pin this process, and processes started later, to a core."""
        if core is not None:
            os.sched_setaffinity(0, {core})


@dataclass(frozen=True, slots=True)
class Scenario:
    """File shape, TLS, latency, and limits of the table."""

    shape: Shape
    tls: bool
    latency: float
    """Seconds between a request and its response."""
    limits: Mapping[str, Any] | None = None
    """Settings of `bench.throttled_table`; None for a table without limits."""
    handshake: float = 0.0
    """Additional seconds before the first response on a connection."""

    @property
    def title(self) -> str:
        """Title for tables and charts."""
        how = "TLS" if self.tls else "plain"
        return f"{self.shape.name}, {how}, {self.latency * 1000:g} ms"


@dataclass(frozen=True, slots=True)
class Cost:
    """Resources that a whole process used."""

    cpu: float
    """CPU seconds, including child processes."""
    wall: float
    sending: float
    """Seconds from the first request's arrival to the last one's."""
    requests: int
    peak_mb: float
    """Peak resident memory in MB; at least that of this process, which forked it."""


class SinkProcess:
    """Child process that runs the sink. It ends with this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.sink", "--folder", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert self._process.stdout is not None  # noqa: S101 - for type checkers
        line = self._process.stdout.readline()
        if not line:
            end_process(self._process)
            raise RuntimeError("the sink did not start")
        self.ready: dict[str, str] = json.loads(line)
        self._direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def reset(self, scenario: Scenario) -> None:
        """Clear the sink's counters, and create the table of a scenario."""
        keys = {name: scenario.shape.columns[name] for name in scenario.shape.keys}
        settings: dict[str, Any] = {"latency": scenario.latency, "table": TABLE, "keys": keys}
        settings |= {"limits": scenario.limits, "handshake": scenario.handshake}
        self._post("/reset", settings)

    def reset_without_tables(self, latency: float) -> None:
        """Clear the sink's counters and remove its tables; clients create them."""
        self._post("/reset", {"latency": latency, "table": None})

    def clear(self) -> None:
        """Clear the sink's counters, but not its tables."""
        self._post("/clear", {})

    def _post(self, path: str, settings: dict[str, Any]) -> None:
        with self._direct.open(self.ready["http"] + path, json.dumps(settings).encode()):
            pass

    def counters(self) -> dict[str, Any]:
        """Return the sink's counters since the last reset."""
        with self._direct.open(self.ready["http"] + "/counters") as answer:
            counters: dict[str, Any] = json.load(answer)
        return counters

    def environment(self, scenario: Scenario, access_key: str = "made-up") -> dict[str, str]:
        """Return an environment that directs an AWS client to the sink only."""
        return {
            **isolated_environment(),
            # Drop PYTHON variables, so that every client uses compiled modules.
            "PYTHONPYCACHEPREFIX": str(self._folder / "bytecode"),
            "AWS_ACCESS_KEY_ID": access_key,
            "AWS_ENDPOINT_URL_DYNAMODB": self.ready["https" if scenario.tls else "http"],
            "AWS_CA_BUNDLE": self.ready["ca"],
        }

    def close(self) -> None:
        """End the process."""
        end_process(self._process)


@contextmanager
def sink(cores: Cores) -> Iterator[SinkProcess]:
    """Run a sink inside the block, and keep this process on the sink's core."""
    with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder, cores.reserved():
        process = SinkProcess(Path(folder))
        try:
            yield process
        finally:
            process.close()


def run(
    client: Client,
    scenario: Scenario,
    file: Path,
    due: ItemChecksum,
    sink_process: SinkProcess,
    cores: Cores,
    limit: float = TIMEOUT_SECONDS,
) -> Cost:
    """Run one round. Raises `InvalidRound` unless exactly the file's items arrived."""
    sink_process.reset(scenario)
    environment = sink_process.environment(scenario)
    what = f"{client.label}, {scenario.title}"
    cost = run_client(client, scenario, file, due.items, environment, cores, limit)
    counters = sink_process.counters()
    check(what, counters, due)
    return Cost(
        cpu=cost.cpu,
        wall=cost.wall,
        sending=counters["seconds"],
        requests=counters["requests"],
        peak_mb=cost.peak_mb,
    )


def run_client(
    client: Client,
    scenario: Scenario,
    file: Path,
    rows: int,
    environment: dict[str, str],
    cores: Cores,
    limit: float,
) -> ResourceUsage:
    """Run a client's process. Raises `InvalidRound` unless ddbload reports that it wrote `rows`."""
    with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder:
        command = client.command(file, scenario.shape, Path(folder, "ledger"))
        cost, out = run_measured(command, environment, Path(folder), cores, limit)
    if client.is_ddbload:
        check_ddbload_report(f"{client.label}, {scenario.title}", json.loads(out), rows)
    return cost


def check(what: str, counters: Mapping[str, Any], due: ItemChecksum) -> None:
    """Raise `InvalidRound` unless exactly the file's items arrived."""
    if counters["invalid"]:
        why = f"{counters['invalid']} invalid requests, first: {counters['first_invalid']}"
    elif counters["items"] != due.items:
        why = f"{counters['items']} of {due.items} items arrived"
    elif counters["checksum"] != due.checksum:
        why = "the items that arrived differ from the file's"
    else:
        return
    raise InvalidRound(f"refused: {what}: {why}")


def check_ddbload_report(what: str, report: Mapping[str, Any], rows: int) -> None:
    """Raise `InvalidRound` unless ddbload reports that every row was read and written once."""
    counted = report["rows"]
    settled = sum(count for name, count in counted.items() if name != "read")
    if not counted["read"] == settled == counted["written"] == rows:
        raise InvalidRound(f"refused: {what}: of {rows} rows ddbload reports {counted}")


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Resources and duration of a finished process, with the names of `os.wait4`."""

    ru_utime: float
    ru_stime: float
    ru_maxrss: int
    wall: float

    @property
    def cpu(self) -> float:
        """CPU seconds of the process and its children."""
        return self.ru_utime + self.ru_stime

    @property
    def peak_mb(self) -> float:
        """Peak resident memory in MB."""
        return self.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024)


def run_measured(
    command: list[str], environment: dict[str, str], folder: Path, cores: Cores, limit: float
) -> tuple[ResourceUsage, str]:
    """Run a command on the client's core. Return its resource usage and standard output.

    Raises `InvalidRound` if it fails or takes more than `limit` seconds. Its standard output and
    error are stored in `folder` as `out` and `err`. The command does not outlive this process.
    """
    out, err = folder / "out", folder / "err"
    with out.open("wb") as to_out, err.open("wb") as to_err:
        # The child inherits the pinning, so its first instruction already runs on the client's
        # core.
        cores.pin(cores.client)
        begin = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                env=environment,
                cwd=ROOT,
                process_group=0,
            )
        finally:
            cores.pin(cores.others)
        try:
            with group_killed_at_end(process.pid):
                while True:
                    pid, status, used = os.wait4(process.pid, os.WNOHANG)
                    if pid:
                        break
                    if time.monotonic() - begin > limit:
                        raise InvalidRound(f"refused: {command[2]} took more than {limit:g} s")
                    time.sleep(_POLL_SECONDS)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    if process.returncode:
        stderr = err.read_text(errors="replace")[-3000:]
        raise InvalidRound(
            f"refused: {' '.join(command[:6])} ended with {process.returncode}\n{stderr}"
        )
    return ResourceUsage(used.ru_utime, used.ru_stime, used.ru_maxrss, wall), out.read_text()
