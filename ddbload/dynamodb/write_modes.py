"""Write modes of a run, and the conditions and statements by which they put items.

Attribute names become part of a statement of PartiQL here and nowhere else. Values never do: they
are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

WRITING_MODES = PUT, INSERT, LAST_WINS, UPDATE, DELETE = (
    *("put", "insert", "last-wins", "update", "delete"),
)
PLAN = "plan"
"""Mode of executions that check every row and write nothing."""
MODES = (*WRITING_MODES, PLAN)

_WORDS = {UPDATE: "updated", DELETE: "deleted"}
_BEFORE = {UPDATE: "may have had these values before", DELETE: "may have been gone before"}


def written_word(mode: str) -> str:
    """Return the word for written rows of a mode: deleted, updated or written."""
    return _WORDS.get(mode, "written")


def written_text(mode: str, written: int, uncertain: int = 0) -> str:
    """Return the count of written rows in words: `9 deleted`.

    `uncertain`: those among them whose item may have been there before.
    """
    text = f"{written:,} {written_word(mode)}"
    if not uncertain:
        return text
    before = _BEFORE.get(mode, "may have been there before")
    return (
        f"{text}, of which up to {uncertain:,} {before} (an attempt was killed or stopped, or an"
        " answer was lost)"
    )


def superseded_text(mode: str) -> str:
    """Say what became of superseded rows."""
    if mode == UPDATE:
        return "merged into the update of a later row of the same key"
    return "superseded by a later row of the same key"


POSITION_LENGTH = 44
"""ASCII characters of a position."""
_POSITION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z/[0-9]{16}", re.ASCII)


class Deletion(dict[str, Any]):
    """Key of an item to delete. In a batch it may be among items to put."""


@dataclass(frozen=True, slots=True)
class ModeCondition:
    """ConditionExpression of a mode's PutItem, and its placeholders."""

    expression: str
    names: Mapping[str, str] = field(default_factory=dict)
    """Attribute names by placeholder, which begins with `#`."""
    position: str | None = None
    """Attribute whose new value replaces `:position`."""


def write_condition(mode: str, partition_key: str, position: str | None) -> ModeCondition | None:
    """Return the condition of a mode; None if it has none, so that rows go in batches.

    `position`: the attribute in which `last-wins` stores positions.
    """
    if mode == INSERT:
        return ModeCondition("attribute_not_exists(#key)", {"#key": partition_key})
    if mode == LAST_WINS and position is not None:
        # Not <, since a row that is sent again after a lost answer meets itself.
        return ModeCondition(
            "attribute_not_exists(#position) OR #position <= :position",
            {"#position": position},
            position,
        )
    return None


def position(started: float, byte: int) -> str:
    """Return the position of a row among all rows of all runs, as text that sorts in order.

    `started`: start of the run, in seconds since the epoch; `byte`: offset of the row in its
    source. The width is fixed, for years of four digits and sources below 1E16 bytes.
    """
    seconds, micros = divmod(round(started * 1_000_000), 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06}Z/{byte:016}"


def is_position(text: object) -> bool:
    """Return true for a text that `position` makes."""
    return isinstance(text, str) and _POSITION.fullmatch(text) is not None


MAX_STATEMENT_BYTES = 8192
"""Longest statement. AWS counts characters ("The maximum length of a PartiQL statement is 8,192
characters"); DynamoDB Local counts bytes of UTF-8, which are never fewer."""
_is_table_name = re.compile(r"[A-Za-z0-9_.-]{1,255}").fullmatch


def quoted_name(name: str) -> str | None:
    """Return an attribute name as a string of PartiQL, in which a single quote is doubled.

    None for a name that should be in no statement: AWS does not document how its parser reads
    backslashes and characters that are not printable.
    """
    if not name or "\\" in name or not name.isprintable():
        return None
    doubled = name.replace("'", "''")
    return f"'{doubled}'"


def insert_statement(table: str, names: Iterable[str]) -> str | None:
    """Return the statement that inserts an item with these attributes, in this order.

    None if a name should be in no statement, or if the statement would be too long: such an item
    goes by PutItem.
    """
    if _is_table_name(table) is None:
        return None
    members: list[str] = []
    for name in names:
        quoted = quoted_name(name)
        if quoted is None:
            return None
        members.append(f"{quoted}:?")
    statement = f'INSERT INTO "{table}" VALUE {{{",".join(members)}}}'
    return statement if len(statement.encode()) <= MAX_STATEMENT_BYTES else None
