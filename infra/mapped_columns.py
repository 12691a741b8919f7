"""Which attributes columns become, by an upload's mapping: what `items.item_layout` takes, which
a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from infra.values import a_name, an_object, is_text, refuse_others, texts, wrong

COLUMN_FIELDS = ("rename", "drop", "set")

_PIECE = re.compile(r"\{\{|\}\}|\{[^{}]+\}|[{}]")
"""In a template: a brace that is text, a column in braces, or a brace by itself."""


def columns(where: str, value: object) -> Mapping[str, Any]:
    """What is renamed, left out, and set."""
    found = an_object(where, value)
    refuse_others(where, found, COLUMN_FIELDS)
    rename = _texts_of(f"{where}.rename", found.get("rename"))
    composed = _texts_of(f"{where}.set", found.get("set"))
    drop = [] if found.get("drop") is None else texts(f"{where}.drop", found["drop"])
    for old, new in rename.items():
        a_name(f"{where}.rename.{old}", new)
        if old in drop:
            raise wrong(f"{where}.drop", drop, f"without '{old}', which is to be renamed")
        if list(rename.values()).count(new) > 1 or new in composed:
            wanted = "a name that no other column is renamed to, and that is not set"
            raise wrong(f"{where}.rename.{old}", new, wanted)
    for name, template in composed.items():
        if not name:
            raise wrong(f"{where}.set", composed, "an object of attributes, which have names")
        if any(len(piece) == 1 for piece in _PIECE.findall(template)):
            wanted = "text with columns as {name}, and braces that are text as {{ or }}"
            raise wrong(f"{where}.set.{name}", template, wanted)
    return found


def _texts_of(where: str, value: object) -> Mapping[str, str]:
    found = an_object(where, value)
    if not all(is_text(each) for pair in found.items() for each in pair):
        raise wrong(where, found, "an object of texts")
    return found
