"""Inputs of executions: JSON as AWS takes it, and as far as Python can stand for it."""

from __future__ import annotations

import json
import math
from typing import Any

from moto.stepfunctions.exceptions import InvalidExecutionInput

DEPTH = 250
"""Levels of arrays and objects. Python's recursion ends some levels above, moto's with it."""


def check_input(text: str) -> None:
    """Raises InvalidExecutionInput, by which a client knows it."""
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_float, parse_int=_integer
        )
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise _invalid(str(error)) from None
    if _is_deeper_than(value, DEPTH):
        raise _too_deep()


def _refuse_constant(word: str) -> Any:
    """Python reads and writes these, and nobody else does."""
    raise _invalid(f"'{word}' is not JSON")


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _unrepresentable(digits)
    return number


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        # Python has a limit, against those who want it to work for nothing.
        raise _unrepresentable(digits) from None


def _is_deeper_than(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels + 1):
        nested = [each for each in level if isinstance(each, list | dict)]
        level = [
            inner
            for each in nested
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not nested:
            return False
    return True


def _unrepresentable(digits: str) -> InvalidExecutionInput:
    shown = digits if len(digits) <= 40 else f"{digits[:37]}..."
    return _invalid(f"{shown} is a number that cannot be represented on this machine")


def _too_deep() -> InvalidExecutionInput:
    return _invalid(f"more than {DEPTH} levels of arrays and objects are not possible here")


def _invalid(cause: str) -> InvalidExecutionInput:
    return InvalidExecutionInput(f"Invalid State Machine Execution Input: {cause}")
