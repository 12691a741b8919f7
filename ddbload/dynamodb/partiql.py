"""Statements of PartiQL. Attribute names become part of a statement here and nowhere else.

Values never do: they are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
