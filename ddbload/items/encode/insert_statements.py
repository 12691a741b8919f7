"""Bodies of BatchExecuteStatement that insert rows: a statement for each, with its values.

Rows are encoded as puts in every mode. In mode `insert` each value has a `VALUE_MARK` on either
side, so that one `split` tells names and values apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring as quoted

from ddbload.contracts.run_record import Table
from ddbload.dynamodb.modes import WriteMode, insert_statement
from ddbload.items.encode.request_json import (
    CONSUMED_CAPACITY,
    VALUE_MARK,
    RequestBody,
    item_of_request,
    marked_put,
    request_body,
)
from ddbload.rows.columns import from_octets, to_octets

MAX_STATEMENTS = 1000
"""Most statements that are kept, one for each set of attribute names."""


class InsertStatements:
    """Statements for the rows of one table, each made once for all rows with the same names."""

    def __init__(self, table: str) -> None:
        self._table = table
        # By the texts around a row's values: the JSON of a request up to its parameters.
        self._openings: dict[tuple[str, ...], str] = {}

    def fits(self, names: Iterable[str]) -> bool:
        """Return whether a statement can insert an item with these attributes."""
        return insert_statement(self._table, names) is not None

    def marked(self, put: str) -> str | None:
        """Mark the values in the request that puts a row; None if no statement can insert it."""
        item = item_of_request(put)
        return marked_put(item) if self.fits(item) else None

    def body(self, puts: Sequence[str]) -> bytes:
        """Return the body that inserts rows, of which each must fit a statement."""
        openings = self._openings
        statements: list[str] = []
        for put in puts:
            row = put if VALUE_MARK in put else marked_put(item_of_request(put))
            parts = row.split(VALUE_MARK)
            around = tuple(parts[::2])
            opening = openings.get(around) or self._opening(around)
            statements.append(f"{opening}{','.join(parts[1::2])}]}}")
        return f'{{"Statements":[{",".join(statements)}]{CONSUMED_CAPACITY}'.encode("latin-1")

    def _opening(self, around: tuple[str, ...]) -> str:
        names = json.loads(from_octets("0".join(around)))["PutRequest"]["Item"]
        statement = insert_statement(self._table, names)
        if statement is None:
            raise AssertionError("a row that fits no statement was sent with others")
        if len(self._openings) >= MAX_STATEMENTS:
            self._openings.clear()
        opening = f'{{"Statement":{to_octets(quoted(statement))},"Parameters":['
        self._openings[around] = opening
        return opening


def statements_for(mode: WriteMode, table: Table) -> InsertStatements | None:
    """Return the statements of mode `insert`; None in other modes, which have none."""
    return InsertStatements(table.name) if mode.inserts else None


def mode_body(
    statements: InsertStatements | None,
    table: Table,
    mode: WriteMode,
    position_attribute: str | None = None,
) -> RequestBody:
    """Return the function that makes a mode's bodies; in mode `insert` one row goes by PutItem."""
    body = request_body(table, mode, position_attribute)
    if statements is None:
        return body
    return lambda puts: body(puts) if len(puts) == 1 else statements.body(puts)
