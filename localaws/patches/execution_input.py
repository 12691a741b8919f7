"""Check the input of an execution: strict JSON, within the limits of Python's json module."""

from __future__ import annotations

import json
import math
from typing import Any

from moto.stepfunctions.exceptions import InvalidExecutionInput

DEPTH = 250
"""Maximum nesting depth of arrays and objects. moto's recursion fails a few levels above."""


def check_input(text: str) -> None:
    """Check an execution's input. Raises InvalidExecutionInput, the error code that clients know."""
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
    """Refuse NaN and Infinity, which Python's json reads but JSON does not have."""
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
        # Python limits the digits of an integer to prevent denial of service.
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
    return _invalid(f"{shown} is a number that cannot be represented here")


def _too_deep() -> InvalidExecutionInput:
    return _invalid(f"more than {DEPTH} levels of arrays and objects are not supported here")


def _invalid(cause: str) -> InvalidExecutionInput:
    return InvalidExecutionInput(f"Invalid State Machine Execution Input: {cause}")
