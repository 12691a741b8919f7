"""Bodies of UpdateItem, and of PutItem and DeleteItem with the user's condition: one row each.

Rows are encoded as puts in every mode, with a `VALUE_MARK` on either side of each value. One
`split` tells names and values apart, and rows with the same names share all but their values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as quoted
from operator import itemgetter
from typing import Any

from ddbload.dynamodb.row_writes import REMOVAL, RowWrites
from ddbload.items.encode.request_json import (
    CONSUMED_CAPACITY,
    VALUE_MARK,
    compact_json,
    item_of_request,
    marked_put,
)
from ddbload.rows.columns import from_octets, to_octets

MAX_FORMS = 1000
"""Most forms of a request that are kept, one for each set of attribute names."""
_REMOVAL = compact_json(REMOVAL)
_Form = tuple[str, Callable[[Sequence[str]], Any]]
"""Body with `%s` for each value, and what picks the values of a row in their order."""


class RowWriteBodies:
    """Bodies of the requests of one run."""

    def __init__(self, writes: RowWrites) -> None:
        self._writes = writes
        # By the texts around a row's values, and the places of the values to remove.
        self._forms: dict[tuple[tuple[str, ...], tuple[int, ...]], _Form] = {}

    def body(self, puts: Sequence[str]) -> bytes:
        """Return the body that writes one row."""
        (put,) = puts
        row = put if VALUE_MARK in put else marked_put(item_of_request(put))
        parts = row.split(VALUE_MARK)
        around, values = tuple(parts[::2]), parts[1::2]
        removed: tuple[int, ...] = ()
        if _REMOVAL in row:
            removed = tuple(place for place, text in enumerate(values) if text == _REMOVAL)
        form, pick = self._forms.get((around, removed)) or self._form(around, removed)
        body: str = form % pick(values)
        return body.encode("latin-1")

    def _form(self, around: tuple[str, ...], removed: tuple[int, ...]) -> _Form:
        writes = self._writes
        names = list(json.loads(from_octets("0".join(around)))["PutRequest"]["Item"])
        request = writes.form(names, [names[place] for place in removed])
        fields = [
            f'"TableName":{quoted(writes.table)}',
            f'"{writes.mode.member}":{_object(request.attributes)}',
            *(f'"{name}":{quoted(text)}' for name, text in request.expressions.items()),
        ]
        if request.names:
            fields.append(f'"ExpressionAttributeNames":{compact_json(dict(request.names))}')
        fields = [text if "\0" in text else text.replace("%", "%%") for text in fields]
        if request.values:
            fields.append(f'"ExpressionAttributeValues":{_object(request.values)}')
        if writes.condition is not None:
            fields.append('"ReturnValuesOnConditionCheckFailure":"ALL_OLD"')
        text = to_octets(f"{{{','.join(fields)}".replace("\0", "%s")) + CONSUMED_CAPACITY
        places = [names.index(name) for name in (*request.attributes, *request.values.values())]
        form: _Form = text, itemgetter(*places)
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
        self._forms[around, removed] = form
        return form


def _object(names: Sequence[str] | Any) -> str:
    """Return a JSON object whose values are left open; a percent sign in a name is doubled."""
    members = ",".join(f"{quoted(name).replace('%', '%%')}:\0" for name in names)
    return f"{{{members}}}"
