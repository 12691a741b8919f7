"""Encodes rows that a Python function changes, leaves out or refuses.

The rows are read and mapped as without it. The function gets the item of a row as Python values;
the item that it returns passes every check again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from ddbload.contracts.column_mapping import ColumnChanges
from ddbload.contracts.payload import NULL, Payload
from ddbload.contracts.results import TRANSFORM
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.modes import PUT
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.errors import TransformNotDeterministic, visible
from ddbload.items.batch_encoder import EncodedRows
from ddbload.items.document_builder import item_line
from ddbload.items.item_requests import Item, compact_json
from ddbload.items.python_values import attributes_of, python_row
from ddbload.items.row_encoder import DocumentEncoder, document_rules, row_encoder_for
from ddbload.items.row_filter import FILTERED
from ddbload.rows.blocks import Block, Defect, RowPositions

Transform = Callable[[dict[str, Any]], dict[str, Any] | None]
"""Function of a row: it returns the row, or None to leave it out, or raises to reject it."""
CHECKED_ROWS = 100
"""Rows of which the function is called twice, before anything is written."""
_MAX_MESSAGE = 300


class TransformedRows(DocumentEncoder):
    """Encoder for the rows of a run after a function, whose results are lines of DynamoDB JSON."""

    def __init__(
        self, record: RunRecord, transform: Transform, hmac_key: bytes | None, checked: int = 0
    ) -> None:
        """Take what `row_encoder_for` takes, the function, and rows to call it twice with."""
        rules = document_rules(record, hmac_key)
        bare: Any = {"types": {}, "changes": ColumnChanges(), "where": (), "markers": frozenset()}
        super().__init__(replace(rules, **bare, typed=True, native=True, envelope=item_line))
        # The function comes before what the mode makes of a row.
        self.inner = row_encoder_for(replace(record, payload=_plain(record.payload)), hmac_key)
        """Encoder of the rows that the function gets."""
        self.ends = self.inner.ends
        self._transform, self._checked = transform, checked

    def reordered(self, places: Sequence[int]) -> TransformedRows:
        """Return the encoder for an object whose columns have these places among the run's."""
        encoder = copy(self)
        encoder.inner = self.inner.reordered(places)
        return encoder

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """Return the positions of a block's rows, and the request for each.

        Raises `TransformNotDeterministic`.
        """
        places, rows = self.inner.read(block)
        requests = map(partial(self._build, places=places), range(len(rows)))
        return places, self.collected(requests, places)

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of one row, which begins at `byte` of the source."""
        mapped = self.inner.build(data, byte)
        if isinstance(mapped, Defect):
            return mapped
        row = python_row(mapped.attributes)
        if self._checked > 0:
            self._checked -= 1
            if self._call(deepcopy(row)) != (found := self._call(row)):
                raise TransformNotDeterministic(
                    f"the transform gives two results for one row, which begins at byte {byte}: it"
                    " must depend on the row alone, not on times, random numbers or rows before it"
                )
        else:
            found = self._call(row)
        if found is None or isinstance(found, Defect):
            return FILTERED if found is None else found
        try:
            return super().build(compact_json({"Item": found}).encode(), byte)
        except UnicodeEncodeError:
            return Defect(TRANSFORM, "the function's row has text that UTF-8 cannot write")

    def _call(self, row: dict[str, Any]) -> Any:
        """Return the attributes of the function's row, its defect, or None if it is left out."""
        try:
            found = self._transform(row)
            return None if found is None else attributes_of(found)
        except BadValue as bad:
            return Defect(bad.cause, bad.detail, bad.column)
        except Exception as error:  # noqa: BLE001 - the user's function may raise any
            text = "an error without a text"
            with suppress(Exception):
                text = f"{type(error).__name__}: {error}"
            return Defect(TRANSFORM, visible(text, _MAX_MESSAGE))


def _plain(payload: Payload) -> Payload:
    """Return a payload whose rows are put as they are, with what a mode removes as nulls."""
    options = replace(
        payload.options,
        mode=PUT.name,
        position_attribute=None,
        on_empty=None,
        add=(),
        only_existing=False,
        condition=None,
    )
    if payload.empty_policy == payload.nulls.policy:
        return replace(payload, options=options)
    return replace(payload, options=options, nulls=replace(payload.nulls, policy=NULL))
