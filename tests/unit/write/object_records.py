"""Record of a run into a bucket."""

from __future__ import annotations

from typing import Any

from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Cursor, RunRecord, Table


def object_record(created: float = 5.0, **options: Any) -> RunRecord:
    """Return the record of run-1, which writes objects below s3://shop/p/."""
    target = {"bucket": "shop", "prefix": "p/", "key": "{id}"}
    payload = Payload.from_json({"source": {"path": "/x"}, "target": target, "options": options})
    return RunRecord(
        *("run-1", payload, {"size": 3}, 3, Cursor(0, 1), ("id",), ("S", "S")),
        *(Table("s3://shop/p/", "s3://shop/p/", (), kind="bucket"), 10, 1, created, "asked"),
    )
