"""Tests of the named errors, and of their documentation."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from ddbload import errors

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
NAMED = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.DdbloadError) and error is not errors.DdbloadError
]


def test_each_error_is_documented():
    page = PAGE.read_text()
    assert [error.__name__ for error in NAMED if f"`{error.__name__}`" not in page] == []


def test_exit_codes_of_all_errors():
    assert {error.exit_code for error in NAMED} == {1, 2, 130}


def test_unexpected_error_shows_its_place_without_its_text():
    try:
        raise ValueError("secret cell")
    except ValueError as error:
        named = errors.unexpected(error, "importing")
    assert named.name == "UnexpectedError"
    assert "ValueError at test_errors.py:" in named.message
    assert "secret" not in named.message


def test_resuming_cannot_help_after_some_errors():
    names = [name for name, kind in vars(errors).items() if isinstance(kind, type)]
    assert {name for name in names if not errors.is_resumable(name)} == {
        "ConditionRefused",
        "NothingWritten",
        "TableNotFound",
        "TableReplaced",
        "UploadSuperseded",
    }
    # Of errors that are AWS's nothing is known.
    assert errors.is_resumable("Lambda.Unknown")
    assert errors.is_resumable("TAKE_UP")


COMMAND_LINE = ("cli", "convert", "deploy", "doctor", "plan", "runs", "verify")
"""Packages of ddbload that the deployed functions do not have."""
ON_UPLOAD = {"steps/executions.py"}
"""Module that meets an error in the function on_upload, which is no task of the state machine."""


SEVERAL_PROCESSES = {"reading/parts.py", "reading/processes.py"}
"""Modules of `plan` and `convert`, whose processes no function starts."""
ONLY_BY_USERS = {
    # Users stop what runs on the command line. on_stopped, which is no task, is invoked again.
    errors.Interrupted: {
        "ledger/run_state.py",
        "steps/chunker.py",
        "reading/parts.py",
        "steps/run_end.py",
    },
    # The run of another process is no failure of the one that was asked for.
    errors.RunUnderWay: set(),
    errors.WorkerDied: SEVERAL_PROCESSES,
}
"""Errors of the command line that modules of functions name, and where."""


def modules_that_name(error: type[errors.DdbloadError]) -> set[str]:
    """Return the modules that mention an error, outside the command line and on_upload."""
    root = Path(errors.__file__).parent
    return {
        name
        for path in root.rglob("*.py")
        if (name := path.relative_to(root).as_posix()).partition("/")[0] not in COMMAND_LINE
        and name not in {"errors.py", *ON_UPLOAD}
        and re.search(rf"\b{error.__name__}\b", path.read_text("utf-8"))
    }


@pytest.mark.parametrize("error", [error for error in NAMED if not error.raised_by_tasks])
def test_error_of_the_command_line_is_not_raised_by_tasks(error):
    assert modules_that_name(error) == ONLY_BY_USERS.get(error, set())


@pytest.mark.parametrize("error", [error for error in NAMED if error.raised_by_tasks])
def test_error_of_a_task_is_raised_outside_the_command_line(error):
    # `unexpected` makes this one.
    assert modules_that_name(error) or error is errors.UnexpectedError
