"""Run the lab's experiments, print what they found, and write a page of it.

    python -m lab [--experiment writers] [--size 10000] [--latency-ms 8] [--seed 1] [--page]

`make lab` runs all experiments at small sizes, and writes into the folder `build`, which git
ignores. `make lab-page` writes `docs/lab.md`, and refuses to while other processes are busy.
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import os
import shutil
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from bench.clients import RIVALS_PYTHON, ROOT
from bench.compare import machine
from bench.rounds import InvalidRound
from lab.experiment import Experiment, Setup
from lab.findings import CountsDiffer
from lab.machine_load import IdleMachine, MachineBusy
from lab.page import PAGE, Run, server_text, write_run
from lab.terminal import WIDTH, chart_text, table_text

NAMES: tuple[str, ...] = ("writers", "ladder", "sinks", "objects", "listing")
"""Experiments, in the order of the page."""


def experiments() -> list[Experiment]:
    """Return all experiments, in the order of the page."""
    return [import_module(f"lab.experiments.{name}").EXPERIMENT for name in NAMES]


def main() -> None:
    """Run what was asked for.

    Exits with 1 if a way fails, the counts do not match, or the machine must be idle and is not.
    """
    options = _options()
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _end)
    keep_to_this_machine()
    if not RIVALS_PYTHON.exists():
        sys.exit(f"{RIVALS_PYTHON.relative_to(ROOT)} is missing: run make rivals")
    # Tables stand between what is said on standard error, into a pipe or a file too.
    assert isinstance(sys.stdout, io.TextIOWrapper)  # noqa: S101 - for type checkers
    sys.stdout.reconfigure(line_buffering=True)
    everything = experiments()
    for experiment in everything:
        if options.experiment in (None, experiment.name):
            _run(experiment, everything, options)


def _run(experiment: Experiment, everything: list[Experiment], options: argparse.Namespace) -> None:
    size = options.size or experiment.size
    latency_ms = experiment.latency_ms if options.latency_ms is None else options.latency_ms
    print(f"\n{experiment.title}: {size:,} {experiment.unit}, {latency_ms:g} ms a request")
    print(f'Published as "{experiment.source}"')
    with tempfile.TemporaryDirectory(prefix="ddbload-lab-") as folder:
        machine = IdleMachine(_say) if options.page else None
        setup = Setup(size, latency_ms / 1000, options.seed, Path(folder), _say, machine)
        try:
            findings = experiment.run(setup)
        except (CountsDiffer, InvalidRound, MachineBusy) as refused:
            sys.exit(f"{experiment.name}: {refused}")
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    for table in findings.tables:
        print("\n" + table_text(table, width))
    for chart in findings.charts:
        print("\n" + chart_text(chart, width))
    print()
    for server in findings.servers:
        print(f"{server_text(server)}.")
    run = Run(
        *(experiment.name, size, latency_ms, options.seed, _machine()),
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        findings=findings,
    )
    docs = Path("docs" if options.page else "build")
    charts = write_run(run, docs, everything)
    print("\nWritten:", docs / PAGE, *charts, sep="\n", flush=True)


def keep_to_this_machine() -> None:
    """Drop the environment's AWS settings, and have no proxy stand before servers of the lab."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    others = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, [others, "127.0.0.1"]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab",
        description="Run published experiments beside ddbload, print what they found, and write"
        " build/lab.md.",
        epilog="With make: make lab EXPERIMENT=writers SIZE=10000 LATENCY_MS=8 SEED=1",
    )
    parser.add_argument("--experiment", choices=NAMES, help="default: all")
    parser.add_argument(
        "--size", type=_positive, help="books, rows, messages, objects or keys; default: small"
    )
    parser.add_argument("--latency-ms", type=_latency, help="default: the experiment's own")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--page", action="store_true", help="write docs/lab.md instead, on an idle machine only"
    )
    options = parser.parse_args()
    if options.size is not None and options.experiment is None:
        parser.error("a size is for one experiment: add EXPERIMENT=NAME, or --experiment NAME")
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return int(text)


def _latency(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 10_000:
        raise argparse.ArgumentTypeError(f"{text} is not a number of milliseconds from 0 to 10000")
    return value


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def _end(number: int, _: object) -> None:
    """End with servers, ways and folders, as at Ctrl-C."""
    sys.exit(128 + number)


def _machine() -> str:
    on = machine()
    return f"{on['python']}, {on['machine']}, {on['processor']}, {on['cores']} cores"


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
