"""Tests of the named errors, and of their documentation."""

from __future__ import annotations

import inspect
from pathlib import Path

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
        "UnterminatedQuote",
        "UploadSuperseded",
    }
    # Of errors that are AWS's nothing is known.
    assert errors.is_resumable("Lambda.Unknown")
    assert errors.is_resumable("TAKE_UP")
