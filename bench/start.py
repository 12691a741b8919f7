"""Measure the CPU time that Lambda functions and commands need to start.

    python -m bench.start

Each import runs in a new process, several times. Functions are measured as deployed: their asset,
whose bytecode cannot be written, beside the runtime's boto3, by a Python of the default runtime's
version if there is one. Their budgets are multiples of `import botocore.session` in the same run.
An import of 25 rows into `bench.sink` has one that is a multiple of a bare client of botocore. The
status is 1 if a budget is exceeded.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

from bench.rounds import SinkProcess
from infra.bundling import bundle, interpreter
from infra.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
IN_RUNTIME = {
    "boto3": "boto3",
    "botocore": "botocore",
    "python-dateutil": "dateutil",
    "s3transfer": "s3transfer",
    "six": "six.py",
    "urllib3": "urllib3",
}
"""Packages of Lambda's runtime, except jmespath, which the asset must provide here."""
ALONE, UNIT = "python alone", "botocore.session"
FUNCTIONS = {
    ALONE: "",
    UNIT: "import botocore.session",
    **{
        name: f"import lambdas.{name}"
        for name in ("on_upload", "preflight", "import_chunk", "report")
    },
    "preflight, importing": (
        "import lambdas.preflight, lambdas.report, ddbload.run_worker, ddbload.steps.import_chunk"
    ),
}
BUDGETS = {
    "on_upload": 0.9,
    "preflight": 1.4,
    "preflight, importing": 1.5,
    "import_chunk": 1.2,
    "report": 1.0,
}
"""Most CPU time of a function's imports, in that of `UNIT`; both without Python's own start."""
CLIENT, SMALL_IMPORT = "a bare client", "an import of 25 rows"
SMALL_IMPORT_BUDGET = 1.3
"""Most CPU time of `SMALL_IMPORT`, in that of `CLIENT`; both with Python's own start."""
COMMANDS = {
    ALONE: "",
    "ddbload --help": "import ddbload.cli.commands",
    "ddbload import": "import ddbload.cli.commands, ddbload.runs.run_import",
    "a client of DynamoDB": (
        "from ddbload.aws.clients import AwsSettings, Clients;"
        " Clients(AwsSettings(region='us-east-1')).dynamodb"
    ),
    CLIENT: (
        "from botocore.session import get_session;"
        " get_session().create_client('dynamodb', region_name='us-east-1')"
    ),
    SMALL_IMPORT: (
        "import sys; sys.argv[1:] = ['import', '--quiet', '--ledger', 'LEDGER', 'FILE', 'bench'];"
        " from ddbload.cli.main import main; main()"
    ),
}
"""Name of each measurement, and a program with only the necessary imports."""


def cpu_seconds(words: list[str], environment: Mapping[str, str]) -> float:
    """Return user plus system time of one process."""
    process = subprocess.Popen(words, cwd=ROOT, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def least(
    programs: Mapping[str, str], python: list[str], environment: Mapping[str, str], rounds: int
) -> dict[str, float]:
    """Return the least CPU time of each program, measured round by round."""
    found: dict[str, list[float]] = {name: [] for name in programs}
    # The first round fills caches.
    for number in range(rounds + 1):
        for name, program in programs.items():
            took = cpu_seconds([*python, program], environment)
            if number:
                found[name].append(took)
    return {name: min(each) for name, each in found.items()}


@contextmanager
def deployed() -> Iterator[list[str]]:
    """Make the asset and the runtime's packages; yield the words that run a program with both."""
    runtime = Settings().runtime
    python = interpreter(runtime)
    if python is None:
        runtime, python = f"python{sys.version_info.major}.{sys.version_info.minor}", sys.executable
    with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder:
        asset, packages = Path(folder, "asset"), Path(folder, "runtime")
        bundle(asset, runtime)
        packages.mkdir()
        for name, top in IN_RUNTIME.items():
            source = Path(str(distribution(name).locate_file(top)))
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "data")
                shutil.copytree(source, packages / top, ignore=ignored)
            else:
                shutil.copy(source, packages)
        subprocess.run([python, "-m", "compileall", "-qq", str(packages)], check=True)
        start = (
            "import sys; sys.path[:0] = sys.argv[1:3]; exec(sys.argv[3])",
            str(asset),
            str(packages),
        )
        # Without a cache of bytecode, as in a folder that cannot be written.
        yield [python, "-I", "-S", "-B", "-c", *start]


def start_costs(rounds: int) -> dict[str, tuple[float, float]]:
    """Return the CPU seconds of each function's imports, and how many `UNIT`s these are."""
    environment = {"PATH": os.environ["PATH"], "AWS_REGION": "eu-west-1"}
    with deployed() as python:
        found = least(FUNCTIONS, python, environment, rounds)
    own = {name: took - found[ALONE] for name, took in found.items() if name != ALONE}
    return {name: (took, took / own[UNIT]) for name, took in own.items()}


def command_costs(rounds: int) -> dict[str, float]:
    """Return the CPU seconds of each command."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "PYTHON", "DDBLOAD_"))}
    with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder:
        file, ledger = Path(folder, "small.csv"), Path(folder, "ledger")
        rows = (f"{number},book {number},{1990 + number}\n" for number in range(25))
        file.write_text("id,name,year\n" + "".join(rows), "utf-8")
        sink = SinkProcess(Path(folder))
        try:
            environment = {
                **kept,
                "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode")),
                "AWS_ENDPOINT_URL": sink.ready["http"],
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "made-up",
                "AWS_SECRET_ACCESS_KEY": "made-up",
            }
            programs = {
                name: program.replace("FILE", str(file)).replace("LEDGER", str(ledger))
                for name, program in COMMANDS.items()
            }
            return least(programs, [sys.executable, "-c"], environment, rounds)
        finally:
            sink.close()


def main(words: list[str] | None = None) -> None:
    """Measure and print all; exit with 1 if a function exceeds its budget."""
    parser = argparse.ArgumentParser(description="Measure the CPU time of start-up.")
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    rounds = parser.parse_args(words).rounds
    costs = start_costs(rounds)
    print("Imports of the functions as deployed: CPU-s, and times those of botocore.session")
    for name, (took, units) in costs.items():
        limit = f" of {BUDGETS[name]}" if name in BUDGETS else ""
        print(f"{name:22}{took:7.3f} {units:5.2f}{limit}")
    print("Commands, Python's start included: CPU-s")
    commands = command_costs(rounds)
    for name, took in commands.items():
        print(f"{name:22}{took:7.3f}")
    ratio = commands[SMALL_IMPORT] / commands[CLIENT]
    print(f"{SMALL_IMPORT} costs {ratio:.2f} of {SMALL_IMPORT_BUDGET} times {CLIENT}")
    exceeded = any(costs[name][1] > budget for name, budget in BUDGETS.items())
    if exceeded or ratio > SMALL_IMPORT_BUDGET:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
