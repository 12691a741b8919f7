"""What a start does not wait for. Time itself is not tested: modules that are slow to load are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SHOW_MODULES = "import {}, json, sys; print(json.dumps(sorted(sys.modules)))"


def modules(start: str) -> set[str]:
    """What is loaded by importing a module."""
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES.format(start)],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(json.loads(shown.stdout))


INSTALLED_AT_START = {
    name.partition(".")[0]
    for name in json.loads(
        subprocess.run(
            [sys.executable, "-c", "import json, sys; print(json.dumps([*sys.modules]))"],
            check=True,
            capture_output=True,
        ).stdout
    )
}
"""What the environment imports in every process of Python."""
ANYWHERE = {"boto3", "botocore.session", "urllib3", "rich", "asyncio", "multiprocessing"}
"""botocore itself, though next to nothing of it, is loaded by Powertools."""


MAX_LEDGER_MODULES = 52
"""Modules and packages of ddbload that a function loads which reads and writes the ledger only."""


@pytest.mark.parametrize(("function", "step"), [("report", "report"), ("on_upload", "uploads")])
def test_ledger_function_loads_few_modules(function, step):
    loaded = {name for name in modules(f"lambdas.{function}") if name.startswith("ddbload.")}
    assert f"ddbload.steps.{step}" in loaded
    assert len(loaded) <= MAX_LEDGER_MODULES, sorted(loaded)


LEDGER = {"aws", "context", "contracts", "dynamodb", "errors", "ledger", "records", "steps"}
REPORTING = LEDGER | {"parallel", "report_page", "source"}
READING = LEDGER | {"items", "parallel", "reading", "rows", "source"}


@pytest.mark.parametrize(
    ("function", "parts", "steps"),
    [
        ("on_upload", LEDGER, {"executions", "uploads"}),
        ("report", REPORTING, {"executions", "load_history", "report", "run_end"}),
        ("on_stopped", REPORTING, {"executions", "load_history", "report", "run_end"}),
        (
            *("import_chunk", READING | {"run_worker", "write"}),
            {"executions", "import_chunk", "places", "row_feeder"},
        ),
        # What importing and reporting a small source needs is imported for one.
        (
            *("preflight", READING),
            {
                *("checks", "chunker", "executions", "find_objects", "load_history", "preflight"),
                *("prepare", "small_run", "uploads"),
            },
        ),
    ],
)
def test_handler_imports_these_parts_only(function, parts, steps):
    loaded = modules(f"lambdas.{function}")
    assert {name.split(".")[1] for name in loaded if name.startswith("ddbload.")} == parts
    assert {name[14:] for name in loaded if name.startswith("ddbload.steps.")} == steps
    others = {"aws_lambda_powertools", "botocore", "ddbload", "jmespath", "lambdas"}
    tops = {name.partition(".")[0] for name in loaded} - INSTALLED_AT_START
    assert tops - sys.stdlib_module_names - {"__main__"} == others | {"typing_extensions"}


@pytest.mark.parametrize(
    "function", ["on_upload", "report", "on_stopped", "import_chunk", "preflight"]
)
def test_snapshot_has_nothing_of_an_invocation(function):
    """Environments that start from one snapshot share no worker's name, connection or seed."""
    program = (
        "import gc, random\n"
        f"import lambdas.{function}, lambdas.deployment\n"
        "from ddbload.aws.clients import Clients\n"
        "lambdas.deployment._run_worker.cache_info().currsize == 0 or exit(1)\n"
        "lambdas.entry.deployment.cache_info().currsize == 0 or exit(2)\n"
        "own = [each for each in gc.get_objects() if type(each) in (Clients, random.Random)]\n"
        "own == [random._inst] or exit(3)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("start", "slow"),
    [
        ("ddbload.cli.commands", {"botocore", "ssl"}),
        ("ddbload.runs.run_import", {"botocore", "click"}),
        *(
            (f"lambdas.{name}", {"click", "ddbload.runs.run_import"})
            for name in ("preflight", "import_chunk", "report", "on_upload")
        ),
    ],
)
def test_nobody_waits_for_what_may_not_be_used(start, slow):
    found = modules(start)
    assert start in found
    assert found & (ANYWHERE | slow) == set()


MAX_COMPILED_CLASSES = 25
"""Dataclasses of ddbload, whose methods Python compiles when they are imported, unlike records'."""


def test_import_command_compiles_few_classes():
    program = (
        "import ddbload.cli.import_command, ddbload.steps.import_chunk, dataclasses, gc\n"
        "print(*(f'{each.__module__}.{each.__name__}' for each in gc.get_objects()"
        " if isinstance(each, type) and '__dataclass_params__' in vars(each)"
        " and each.__module__.startswith('ddbload.')))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    # With slots, a dataclass is made twice.
    assert len(set(shown.stdout.split())) <= MAX_COMPILED_CLASSES, shown.stdout
