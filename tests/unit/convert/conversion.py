"""Conversions in memory."""

from __future__ import annotations

import io
import json
from typing import Any, Self

from ddbload.context import AccessPolicy
from ddbload.contracts.payload import Payload
from ddbload.convert.convert import convert, prepare_conversion
from ddbload.convert.sinks import StreamSink
from ddbload.ledger.ledger import temporary_ledger
from ddbload.reading.parts import ReadCounts
from tests.unit.steps.world import World


class Conversion:
    """Conversion of a file or of a folder, with what it has written, rejected and counted."""

    def __init__(self, place: str, table: str | None = None, **payload: Any) -> None:
        source = {"path": place, **payload.pop("source", {})}
        self.payload = {"source": source, "target": {"table": table or "none"}, **payload}
        self.table = table
        self.rejects: list[dict[str, Any]] = []
        self.converted, self.out = ReadCounts(), io.BytesIO()
        self.watched: list[int] = []

    def run(self, first: int | None = None) -> Self:
        """Convert all rows, or the first ones."""
        context = World(b"", access=AccessPolicy(paths=True)).context()
        with temporary_ledger() as ledger:
            payload = Payload.from_json(self.payload)
            convert(
                prepare_conversion(payload, self.table, ledger, context),
                ledger,
                context,
                StreamSink(self.out, "out"),
                self.converted,
                reject=lambda line: self.rejects.append(json.loads(line)),
                watch=lambda _read, _size, rows: self.watched.append(rows),
                first=first,
            )
        return self

    @property
    def items(self) -> list[Any]:
        found = [json.loads(line) for line in self.out.getvalue().splitlines()]
        assert all(each.keys() == {"Item"} for each in found)
        return [each["Item"] for each in found]
