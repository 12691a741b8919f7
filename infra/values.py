"""Values of knobs, read strictly: each reader says where a wrong one stands and what is wanted."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from infra.errors import InvalidSetting


def wrong(where: str, value: object, wanted: str) -> InvalidSetting:
    """The error for a value that is not what its place wants."""
    shown = json.dumps(value, default=str)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return InvalidSetting(
        f"{where} is {shown}, and must be {wanted}: set it in cdk.json's context,"
        f" or with -c {where.partition('[')[0].partition('.')[0]}=..."
    )


def matching(where: str, value: object, pattern: re.Pattern[str]) -> str:
    """Text of this form from its beginning to its end."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise wrong(where, value, f"text like {pattern.pattern}")
    return value


def one_of(where: str, value: object, choices: Collection[str]) -> str:
    """One of the known words."""
    if value not in choices:
        raise wrong(where, value, f"one of {', '.join(choices)}")
    return str(value)


def is_text(value: object) -> bool:
    """Whether it is text that UTF-8 can write: JSON can say half a surrogate pair, too."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def a_name(where: str, value: object, wanted: str = "the name of an attribute") -> str:
    """Text that is not empty."""
    if not value or not is_text(value):
        raise wrong(where, value, wanted)
    return str(value)


def texts(where: str, value: object) -> list[str]:
    """A list of texts."""
    if not isinstance(value, list | tuple) or not all(is_text(each) for each in value):
        raise wrong(where, value, "a list of texts")
    return list(value)


def whole(where: str, value: object, allowed: range, *, from_text: bool = True) -> int:
    """A whole number. `from_text`: as text too, because from `-c` comes nothing else."""
    number = value
    if from_text and isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
        number = int(value)
    if isinstance(number, float) and number.is_integer():
        # JavaScript, through which the context comes, has one kind of number.
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool) or number not in allowed:
        raise wrong(where, value, f"a whole number from {allowed.start} to {allowed.stop - 1}")
    return number


def true_or_false(where: str, value: object) -> bool:
    """A boolean, or the same word as text, because from `-c` comes nothing else."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise wrong(where, value, "true or false")


def an_object(where: str, value: object) -> Mapping[str, Any]:
    """An object; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(where, value, "an object")
    return value


def refuse_others(where: str, value: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise `InvalidSetting` for a field of another name."""
    for name in value:
        if name not in names:
            raise InvalidSetting(f"{where} has a field '{name}'; it may have {', '.join(names)}")


def decoded(where: str, value: object) -> object:
    """JSON text, as `-c` gives it, decoded; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value or "[]")
    except ValueError as error:
        raise InvalidSetting(f"{where} is no JSON ({error}): quote it for your shell") from None
