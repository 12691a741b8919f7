"""Update expressions, as far as a loader needs them: SET a = :v, REMOVE a, ADD a :v.

``a`` is a top-level attribute, or a placeholder for its name.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.dynamodb_tables import Table
from tests.fakes.dynamodb_values import Item, Value, invalid, stored

MAX_BYTES = 4096
_CLAUSES = re.compile(r"\s*(SET|REMOVE|ADD)\s+", re.IGNORECASE)
_SETTING = re.compile(r"\s*(#?[A-Za-z0-9_]+)\s*=\s*(:[A-Za-z0-9_]+)\s*")
_ADDITION = re.compile(r"\s*(#?[A-Za-z0-9_]+)\s+(:[A-Za-z0-9_]+)\s*")
_REMOVAL = re.compile(r"\s*(#?[A-Za-z0-9_]+)()\s*")


@dataclass
class Update:
    """Changes of one item."""

    settings: dict[str, Value] = field(default_factory=dict)
    removals: list[str] = field(default_factory=list)
    additions: dict[str, Value] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def applied(self, item: Item | None, named: Item) -> Item | None:
        """Return the item with the changes. Raises Refused for an addition to another type.

        Without an item there is `named`, its key; but an update that only removes makes no item.
        """
        if item is None and self.removals and not self.settings and not self.additions:
            return None
        new = copy.deepcopy(item or named) | self.settings
        for name in self.removals:
            new.pop(name, None)
        for name, value in self.additions.items():
            ((kind, members),) = value.items()
            if name not in new:
                new[name] = value
                continue
            ((there, content),) = new[name].items()
            if there != kind:
                raise invalid("An operand in the update expression has an incorrect data type")
            new[name] = {kind: sorted({*content, *members})}
        return new


def parsed_update(params: dict[str, Any], table: Table) -> Update:
    """Parse the UpdateExpression of a call. Raises Refused as the service would."""
    text = params.get("UpdateExpression")
    update = Update()
    if text is None:
        return update
    if len(text.encode()) > MAX_BYTES:
        raise invalid(
            "Invalid UpdateExpression: Expression size has exceeded the maximum allowed size;"
        )
    names = params.get("ExpressionAttributeNames", {})
    values = params.get("ExpressionAttributeValues", {})
    pieces = _CLAUSES.split(text)
    if pieces[0].strip() or len(pieces) < 3:
        raise invalid("Invalid UpdateExpression: Syntax error")
    seen: set[str] = set()
    for verb, clause in zip(pieces[1::2], pieces[2::2], strict=True):
        pattern = {"SET": _SETTING, "ADD": _ADDITION, "REMOVE": _REMOVAL}[verb.upper()]
        for part in clause.split(","):
            match = pattern.fullmatch(part)
            if match is None:
                raise invalid("Invalid UpdateExpression: Syntax error")
            name, value = _name(match[1], names, update), None
            if match[2]:
                if match[2] not in values:
                    raise invalid(f"Invalid UpdateExpression: {match[2]} is not defined")
                update.used.add(match[2])
                value = stored(values[match[2]])
            if name in seen:
                raise invalid("Invalid UpdateExpression: Two document paths overlap")
            seen.add(name)
            if name in {each["AttributeName"] for each in table.definition["KeySchema"]}:
                raise invalid(
                    "One or more parameter values were invalid: Cannot update attribute"
                    f" {name}. This attribute is part of the key"
                )
            if value is None:
                update.removals.append(name)
            elif verb.upper() == "SET":
                update.settings[name] = value
            elif next(iter(value)) in ("SS", "NS", "BS"):
                update.additions[name] = value
            else:
                raise invalid(
                    "Invalid UpdateExpression: Incorrect operand type for operator or function;"
                    " operator: ADD, operand type: STRING"
                )
    return update


def _name(token: str, names: dict[str, str], update: Update) -> str:
    if not token.startswith("#"):
        return token
    if token not in names:
        raise invalid(f"Invalid UpdateExpression: {token} is not defined")
    update.used.add(token)
    return names[token]
