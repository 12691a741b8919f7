"""What becomes of a row at the table: the modes of a run, and the conditions they write under.

Shared by those who make requests and those who read the answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

MODES = PUT, INSERT, LAST_WINS, DELETE, PLAN = ("put", "insert", "last-wins", "delete", "plan")

POSITION_LENGTH = 44
"""Characters of a position, all of them ASCII."""
_POSITION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z/[0-9]{16}", re.ASCII)


class Deletion(dict[str, Any]):
    """The key of an item that is to be deleted, among items that are to be put."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of the item that is there, for a PutItem to be carried out."""

    expression: str
    names: Mapping[str, str] = field(default_factory=dict)
    """The attributes that the expression's `#` stand for."""
    position: str | None = None
    """The attribute whose new value the expression's `:position` stands for."""


def write_condition(mode: str, partition_key: str, position: str | None) -> Condition | None:
    """The condition that a mode writes under; None: under none, so many rows in one request.

    `position`: the attribute that `last-wins` keeps positions in.
    """
    if mode == INSERT:
        return Condition("attribute_not_exists(#key)", {"#key": partition_key})
    if mode == LAST_WINS and position is not None:
        # <= and not <: a row whose answer was lost is sent again, and finds itself.
        return Condition(
            "attribute_not_exists(#position) OR #position <= :position",
            {"#position": position},
            position,
        )
    return None


def position(started: float, byte: int) -> str:
    """Where a row stands among all rows of all runs, as text that DynamoDB puts in their order.

    `started`: when the run began, in seconds since the epoch; `byte`: where the row begins in its
    source. Of a fixed width, for as long as years have four digits and sources fewer than 1E16
    bytes.
    """
    seconds, micros = divmod(round(started * 1_000_000), 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06}Z/{byte:016}"


def is_position(text: object) -> bool:
    """Whether it is what `position` makes."""
    return isinstance(text, str) and _POSITION.fullmatch(text) is not None
