"""Write modes of a run: one value for each, with everything that depends on the mode.

Attribute names become part of a statement of PartiQL here and nowhere else. Values never do: they
are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

OWN_RULES = frozenset({"condition"})
"""Options of modes in which users may give a condition."""


class Deletion(dict[str, Any]):
    """Key of an item to delete. In a batch it may be among items to put."""


@dataclass(frozen=True, slots=True)
class WriteMode:
    """Write mode: its requests, the meaning of their answers, its options and its words."""

    name: str
    writes: bool = True
    """False for the mode that checks every row and sends nothing."""
    replaces: bool = False
    """True if a row replaces the item with its key, whatever that is."""
    inserts: bool = False
    """True if a row whose key is in the table is skipped; rows go as statements of PartiQL."""
    updates: bool = False
    """True if a row changes attributes of an item, and leaves the others."""
    deletes: bool = False
    """True if a row lists a key to delete: its other attributes and index limits do not matter."""
    keeps_position: bool = False
    """True if items hold the position of their row, by which the last row of a key stays."""
    operation: str = "PutItem"
    """DynamoDB operation that writes one row by itself."""
    batch: str | None = None
    """Operation that writes several rows; None if each needs a condition or an expression."""
    condition: str | None = None
    """The mode's own ConditionExpression: `#key` is the partition key, `#position` the position
    attribute, `:position` the row's position."""
    last_request_wins: bool = False
    """True if an item depends on which request of a key's rows arrives last."""
    options: frozenset[str] = frozenset()
    """Options that only some modes have, of those that this one has."""
    own_condition: str = ""
    """Hint for users who give a condition in a mode with one of its own."""
    written: str = "written"
    """Word for rows that were written."""
    skipped: str = "skipped"
    """Word for rows that were skipped."""
    skip_reason: str = "the run's condition on the item in the table was false"
    before: str = "may have been there before"
    """Doubt about an item that an earlier request may have written."""
    superseded: str = "superseded by a later row of the same key"
    """What became of superseded rows."""
    effect: str | None = None
    """Verb for what a row does to any item with its key."""
    loading: str = "loading it into"
    """Words between an object and its table."""
    price: str = "assuming new items; replacing an item costs the larger of both"
    """Assumption of a plan's price."""

    @property
    def member(self) -> str:
        """Parameter of `operation` that holds the item or its key."""
        return "Item" if self.operation == "PutItem" else "Key"

    @property
    def as_in_source(self) -> bool:
        """True if a row writes the attributes of the source, and no others."""
        return not self.deletes and not self.keeps_position

    def written_text(self, written: int, uncertain: int = 0) -> str:
        """Return the count of written rows in words: `9 deleted`.

        `uncertain`: those among them whose item may have been there before.
        """
        text = f"{written:,} {self.written}"
        if not uncertain:
            return text
        return (
            f"{text}, of which up to {uncertain:,} {self.before} (an attempt was killed or stopped,"
            " or an answer was lost)"
        )

    def outcome_word(self, outcome: str) -> str:
        """Return the word for an outcome: `deleted`, `would be written`, `rejected`."""
        return {"written": self.written, "skipped": self.skipped}.get(outcome, outcome)

    def condition_parameters(self, partition_key: str, position: str | None) -> dict[str, Any]:
        """Return the PutItem parameters of the mode's own condition; none if it has none.

        `position`: the attribute in which `last-wins` stores positions.
        """
        if self.condition is None:
            return {}
        names = {"#key": partition_key} if position is None else {"#position": position}
        return {"ConditionExpression": self.condition, "ExpressionAttributeNames": names}


PUT = WriteMode(
    "put",
    replaces=True,
    batch="BatchWriteItem",
    last_request_wins=True,
    options=OWN_RULES,
    effect="replaces",
)
INSERT = WriteMode(
    "insert",
    inserts=True,
    batch="BatchExecuteStatement",
    condition="attribute_not_exists(#key)",
    own_condition=", which has a condition of its own: with mode put, write"
    " attribute_not_exists(key) AND yours",
    skip_reason="the table has an item of their key",
)
LAST_WINS = WriteMode(
    "last-wins",
    keeps_position=True,
    # Not <, since a row that is sent again after a lost answer meets itself.
    condition="attribute_not_exists(#position) OR #position <= :position",
    options=frozenset({"position_attribute"}),
    own_condition=", which has a condition of its own",
)
UPDATE = WriteMode(
    "update",
    updates=True,
    operation="UpdateItem",
    last_request_wins=True,
    options=OWN_RULES | {"on_empty", "add", "only_existing"},
    written="updated",
    before="may have had these values before",
    superseded="merged into the update of a later row of the same key",
    effect="updates",
    price="the least that it can be: an update is billed by the whole item, before or after it,"
    " whichever is larger",
)
DELETE = WriteMode(
    "delete",
    deletes=True,
    operation="DeleteItem",
    batch="BatchWriteItem",
    options=OWN_RULES,
    written="deleted",
    before="may have been gone before",
    effect="deletes",
    loading="deleting it from",
    price="assuming items of up to 1 KB; deleting larger items and index entries costs more",
)
PLAN = WriteMode("plan", writes=False, skipped="would be written")
MODES = {each.name: each for each in (PUT, INSERT, LAST_WINS, UPDATE, DELETE, PLAN)}
"""Modes by name."""


def mode_of(name: str | None) -> WriteMode:
    """Return the mode of a name, `PUT` for one that is unknown: not every input was checked."""
    return MODES.get(name or "", PUT)


POSITION_LENGTH = 44
"""ASCII characters of a position."""
_POSITION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z/[0-9]{16}", re.ASCII)


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
