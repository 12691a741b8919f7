"""The one place that cleans text which leaves: for logs, states, events, reports and terminals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_ERROR_TEXT = 8000
"""Characters of an error's message; it may quote user input of any length."""


def visible(text: str, most: int | None = None) -> str:
    r"""Escape characters that have no picture: `\x1b`, `\u202e`, `\udc80`; cut to `most`.

    They could control a terminal, hide text or turn its direction, or be no valid UTF-8.
    """
    if most is not None and len(text) > most:
        # Escaped afterwards: a text of any length costs no more.
        text = f"{text[:most]}..."
    if not text.isprintable():
        text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
        if most is not None and len(text) > most:
            text = f"{text[:most]}..."
    return text


def visible_json(value: Any) -> Any:
    """Escape all texts in a JSON value, names of fields included, as `visible` does."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(name)): visible_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [visible_json(each) for each in value]
    return value
