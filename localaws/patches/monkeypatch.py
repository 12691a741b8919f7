"""Replace functions of moto."""

from __future__ import annotations

from typing import Any


def original(owner: Any, name: str) -> Any:
    """Return the function as defined; for a class or static method the wrapped function."""
    found = vars(owner)[name]
    return found.__func__ if isinstance(found, classmethod | staticmethod) else found


def replace(owner: Any, name: str, replacement: Any) -> None:
    """Replace `owner.name`, which must exist, and keep its kind of method. Raises KeyError."""
    found = vars(owner)[name]
    if isinstance(found, classmethod | staticmethod):
        replacement = type(found)(replacement)
    setattr(owner, name, replacement)
