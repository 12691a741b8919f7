"""Write modes of a run, and the request that each makes of a row.

Attribute names and values are never pasted into an expression: both stand behind placeholders. In a
statement of PartiQL, names are quoted here and nowhere else, and values are parameters. The text of
a condition is the user's own, with `{column}`, `#name` and `#{a name}` replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Self

from ddbload.dynamodb.item_equality import same
from ddbload.errors import InvalidPayload
from ddbload.records import Record

OWN_RULES = frozenset({"condition"})
"""Options of modes in which users may give a condition."""


class RowOrder(Enum):
    """Order in which rows with equal keys are written."""

    LAST_WINS = "last wins"
    """A later row may replace an earlier one that is not written yet."""
    FIRST_WINS = "first wins"
    """One after the other; only the first one can be written."""
    ALL = "all"
    """One after the other; each may be written."""


class Deletion(dict[str, Any]):
    """Key of an item to delete. In a batch it may be among items to put."""


class WriteMode(Record):
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
    """Fate of superseded rows, in words."""
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


MAX_EXPRESSION_BYTES = 4096
"""Longest expression ("Expression parameters" in DynamoDB's quotas: 4 KB)."""
SETS = frozenset({"SS", "NS", "BS"})
"""Types that can be added to: adding again changes nothing."""
REMOVAL: dict[str, Any] = {"REMOVE": True}
"""Value of an attribute that an update removes. No row can hold it: `REMOVE` is not a type."""

_PIECE = re.compile(
    r"\{\{|\}\}|#\{(?P<quoted>[^{}]+)\}|#(?P<name>[A-Za-z0-9_]+)|\{(?P<column>[^{}]+)\}|[{}#:]"
)


class Condition(Record):
    """A user's condition, with placeholders for names and values."""

    expression: str
    names: Mapping[str, str]
    """Attribute names by placeholder, which begins with `#`."""
    columns: Mapping[str, str]
    """Columns of the row by placeholder, which begins with `:`."""

    @classmethod
    def read(cls, text: str, rename: Mapping[str, str] | None = None) -> Self:
        """Read a condition; `rename` gives the attributes of renamed columns.

        Raises `InvalidPayload`, whose message goes on after "the condition ".
        """
        names: dict[str, str] = {}
        columns: dict[str, str] = {}

        def replaced(found: re.Match[str]) -> str:
            name, column = found["quoted"] or found["name"], found["column"]
            if name is not None:
                return names.setdefault(name, f"#c{len(names)}")
            if column is not None:
                attribute = (rename or {}).get(column, column)
                return columns.setdefault(attribute, f":c{len(columns)}")
            if len(found[0]) == 1:
                raise InvalidPayload(_LONE[found[0]])
            return found[0][0]

        expression = _PIECE.sub(replaced, text)
        if not expression.strip():
            raise InvalidPayload("is empty; write one such as attribute_not_exists(pk), or none")
        try:
            size = len(expression.encode())
        except UnicodeEncodeError:
            raise InvalidPayload("is not valid UTF-8") from None
        if size > MAX_EXPRESSION_BYTES:
            raise InvalidPayload(
                f"has {size} bytes; DynamoDB's limit is {MAX_EXPRESSION_BYTES}: shorten it"
            )
        return cls(
            expression,
            {placeholder: name for name, placeholder in names.items()},
            {placeholder: column for column, placeholder in columns.items()},
        )


_LONE = {
    "{": "has a single '{': write a column's value as {column}, and a literal brace as {{ or }}",
    "}": "has a single '}': write a column's value as {column}, and a literal brace as {{ or }}",
    "#": "has a '#' without a name: write an attribute's name as #name or #{a name}",
    ":": "has a ':': values come from the row, written as {column}",
}


class RequestForm(Record):
    """Request of all rows with the same attributes, without their values."""

    attributes: tuple[str, ...]
    """Attributes of the item to put, or of the key."""
    expressions: Mapping[str, str] = field(default_factory=dict)
    """Expressions by name of the operation's parameter."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Attribute names by placeholder."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Attributes whose values replace the placeholders."""
    returns_old: bool = False
    """True if DynamoDB answers a false condition with the item in the table."""


class RowWrites(Record):
    """Rules by which a run writes one row in a request."""

    mode: WriteMode
    table: str
    keys: tuple[str, ...]
    """Key attributes of the table."""
    adds: frozenset[str] = frozenset()
    """Attributes whose sets an update adds to, instead of replacing them."""
    condition: Condition | None = None
    only_existing: bool = False
    """Write no row whose item is not in the table."""
    unwritten: frozenset[str] = frozenset()
    """Columns that only the condition uses."""

    @property
    def merges(self) -> bool:
        """True if updates of one key may be merged into one: nothing can refuse one of them."""
        return self.mode.updates and self.condition is None and not self.only_existing

    @property
    def condition_columns(self) -> frozenset[str]:
        """Attributes of a row whose values the condition needs."""
        return frozenset(() if self.condition is None else self.condition.columns.values())

    def form(self, names: Sequence[str], removed: Collection[str] = ()) -> RequestForm:
        """Return the request of rows with these attributes; `removed` are those to remove."""
        written = [name for name in names if name not in self.unwritten]
        expressions: dict[str, str] = {}
        placeholders: dict[str, str] = {}
        values: dict[str, str] = {}
        attributes = tuple(written)
        if self.mode.member == "Key":
            attributes = tuple(name for name in written if name in self.keys)
        if self.mode.updates:
            changed = [name for name in written if name not in self.keys]
            expression = update_expression(changed, self.adds, removed)
            if expression:
                expressions["UpdateExpression"] = expression
            for place, name in enumerate(changed):
                placeholders[f"#{place}"] = name
                if name not in removed:
                    values[f":{place}"] = name
        condition = self.condition
        texts = [] if condition is None else [condition.expression]
        if self.only_existing:
            texts = ["attribute_exists(#k)", *(f"({text})" for text in texts)]
            placeholders["#k"] = self.keys[0]
        if texts:
            expressions["ConditionExpression"] = " AND ".join(texts)
        if condition is not None:
            placeholders |= condition.names
            values |= condition.columns
        return RequestForm(attributes, expressions, placeholders, values, condition is not None)

    def merged(self, earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the row whose update does what those of two rows would do one after the other.

        None if there is none: a condition may be true for one of them only, a set may not be
        removed and added to in one request, an item is not made by a request that only removes
        attributes, and expressions have a greatest length.
        """
        if not self.merges:
            return None
        row = {**earlier, **later}
        for name in self.adds & earlier.keys() & later.keys():
            if earlier[name] == later[name]:
                continue
            value = _union(earlier[name], later[name])
            if value is None:
                return None
            row[name] = value
        makes_none = self._only_removes(earlier) and self._only_removes(later)
        if self._only_removes(row) != makes_none:
            return None
        changed = [name for name in row if name not in self.keys]
        removed = {name for name in changed if row[name] == REMOVAL}
        if len(update_expression(changed, self.adds, removed)) > MAX_EXPRESSION_BYTES:
            return None
        return row

    def _only_removes(self, row: Mapping[str, Any]) -> bool:
        """Return whether the row's update makes no item where there is none.

        DynamoDB makes one for a key without other attributes, but none to remove attributes only.
        """
        values = [value for name, value in row.items() if name not in self.keys]
        return bool(values) and all(value == REMOVAL for value in values)

    def has_effect(self, row: Mapping[str, Any], existing: Mapping[str, Any] | None) -> bool:
        """Return whether the item in the table is as the row would leave it.

        `existing` is None if there is no item.
        """
        if self.mode.deletes or existing is None:
            return self.mode.deletes and existing is None
        written = {name: value for name, value in row.items() if name not in self.unwritten}
        if not self.mode.updates and written.keys() != existing.keys():
            return False
        return all(self._holds(name, value, existing) for name, value in written.items())

    def _holds(self, name: str, value: Mapping[str, Any], existing: Mapping[str, Any]) -> bool:
        if value == REMOVAL:
            return name not in existing
        there = existing.get(name)
        if there is None:
            return False
        if name in self.adds:
            ((kind, members),) = value.items()
            found = there.get(kind)
            if not isinstance(found, list):
                return False
            return same({kind: [*found, *members]}, {kind: found})
        return same(value, there)


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the union of two sets; None if they are not sets of one type."""
    ((kind, members),), ((other_kind, more),) = one.items(), other.items()
    if kind != other_kind or kind not in SETS:
        return None
    of_value = Decimal if kind == "NS" else str
    return {kind: list({of_value(member): member for member in (*members, *more)}.values())}


def update_expression(
    names: Sequence[str], adds: Collection[str] = (), removed: Collection[str] = ()
) -> str:
    """Return the UpdateExpression that changes attributes, by their places; empty for none."""
    removals: list[str] = []
    additions: list[str] = []
    settings: list[str] = []
    for place, name in enumerate(names):
        if name in removed:
            removals.append(f"#{place}")
        elif name in adds:
            additions.append(f"#{place} :{place}")
        else:
            settings.append(f"#{place}=:{place}")
    clauses = (("SET", settings), ("REMOVE", removals), ("ADD", additions))
    return " ".join(f"{verb} {','.join(parts)}" for verb, parts in clauses if parts)


def without_removals(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a row that hold values."""
    return {name: value for name, value in item.items() if value != REMOVAL}


def longest_update(names: Iterable[str], keys: Collection[str]) -> int:
    """Return the bytes of the longest UpdateExpression of rows with these attributes."""
    return len(update_expression([name for name in names if name not in keys]))
