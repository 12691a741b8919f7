"""Measure the CPU time that Lambda functions and commands need to start.

    python -m bench.start

Each import runs in a new process, several times, with compiled bytecode. The figures include the
start of the bare interpreter, which is listed separately.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STARTS = {
    "python alone": "",
    **{
        f"lambdas/{name}.py": f"import lambdas.{name}"
        for name in ("preflight", "import_chunk", "report", "on_upload")
    },
    "ddbload --help": "import ddbload.cli.commands",
    "ddbload import": "import ddbload.cli.commands, ddbload.runs.run_import",
    "a client of DynamoDB": (
        "from ddbload.aws.clients import AwsSettings, Clients;"
        " Clients(AwsSettings(region='us-east-1')).dynamodb"
    ),
}
"""Name of each measurement, and a program with only the necessary imports."""


def cpu_seconds(program: str, environment: Mapping[str, str]) -> float:
    """Return user plus system time of one process."""
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{program!r} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def main(words: list[str] | None = None) -> None:
    """Measure all programs round by round, and print the medians."""
    parser = argparse.ArgumentParser(description="Measure the CPU time of start-up.")
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    rounds = parser.parse_args(words).rounds
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "PYTHON"))}
    found: dict[str, list[float]] = {name: [] for name in STARTS}
    with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder:
        environment = {**kept, "PYTHONPYCACHEPREFIX": folder}
        for number in range(rounds + 1):
            for name, program in STARTS.items():
                took = cpu_seconds(program, environment)
                # The first round compiles the modules.
                if number:
                    found[name].append(took)
    for name, each in found.items():
        print(f"{name:22}{statistics.median(each):7.3f} CPU-s (minimum {min(each):.3f})")


if __name__ == "__main__":
    main()
