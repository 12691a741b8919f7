"""Replacing a function of moto by another one: there must have been one."""

from __future__ import annotations

from typing import Any


def original(owner: Any, name: str) -> Any:
    """The function as it is defined: of a class or static method, what it wraps."""
    found = vars(owner)[name]
    return found.__func__ if isinstance(found, classmethod | staticmethod) else found


def replace(owner: Any, name: str, replacement: Any) -> None:
    """Put `replacement` in its place, as the kind of method that it is. Raises KeyError."""
    found = vars(owner)[name]
    if isinstance(found, classmethod | staticmethod):
        replacement = type(found)(replacement)
    setattr(owner, name, replacement)
