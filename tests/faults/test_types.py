"""Every type and a mapping, written by every engine, gives the same items."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.context import AccessPolicy, Context
from ddbload.contracts.options import ENGINES
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.states import ImportTask, PreflightTask
from ddbload.steps.import_chunk import import_chunk
from ddbload.steps.preflight import preflight
from ddbload.steps.report import write_report
from tests.faults.request_helpers import ShortPauses
from tests.faults.server import FaultServer
from tests.unit.aws.response_helpers import CREDENTIALS, isolate
from tests.unit.steps.world import MemoryStore

TABLE, RUN, ROWS = "typed", "run-1", 60
PAYLOAD: dict[str, Any] = {
    "target": {"table": TABLE},
    "types": {"b": "B", "bs": "BS", "m": "M", "at": "epoch"},
    "mapping": {"rename": {"hash": "pk"}, "drop": ["n"], "set": {"sk": "ROW#{n}"}},
    "nulls": {"policy": "null", "markers": ["\\N"]},
}


@pytest.fixture(autouse=True)
def settings(monkeypatch) -> None:
    isolate(monkeypatch, **CREDENTIALS, AWS_REGION="us-east-1")


@pytest.fixture
def server() -> Any:
    with FaultServer() as running:
        running.dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "B"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        yield running


def _line(row: int) -> str:
    hashed = base64.b64encode(bytes([row, 255])).decode()
    members = json.dumps([base64.b64encode(bytes([row])).decode(), ""]).replace('"', '""')
    nested = json.dumps({"l": [row, None]}).replace('"', '""')
    none = "\\N" if row % 2 else ""
    return f'{hashed},{row},{none},"{members}","{nested}",2024-02-29\n'


def _item(row: int) -> dict[str, Any]:
    return {
        "pk": {"B": bytes([row, 255])},
        "sk": {"S": f"ROW#{row}"},
        "b": {"NULL": True},
        "bs": {"BS": [bytes([row]), b""]},
        "m": {"M": {"l": {"L": [{"N": str(Decimal(row))}, {"NULL": True}]}}},
        "at": {"N": "1709164800"},
    }


@pytest.mark.parametrize("mode", ["put", "insert", "delete"])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_writes_the_same_items(server, tmp_path, engine, mode) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("hash,n,b,bs,m,at\n" + "".join(map(_line, range(ROWS))))
    for operation, fault in (("BatchWriteItem", "unprocessed_some"), ("PutItem", "reset_landed")):
        if operation == ("PutItem" if mode == "insert" else "BatchWriteItem"):
            server.faults.add(operation, None, fault, fault)
    if mode == "delete":
        for row in range(ROWS):
            server.dynamodb.put_item(TableName=TABLE, Item=_item(row))
    context = Context(
        store=MemoryStore(),
        clients=Clients(AwsSettings(endpoint_url=server.endpoint), connections=4),
        access=AccessPolicy(paths=True),
        rng=ShortPauses(1),
    )
    payload = {
        **PAYLOAD,
        "source": {"path": str(file)},
        "options": {"engine": engine, "concurrency": 4, "chunk_bytes": 4000, "mode": mode},
    }
    preflight(PreflightTask(payload, RUN, None), context)
    for chunk in context.ledger(RUN).find_manifest() or ():
        assert import_chunk(ImportTask(RUN, chunk, None), context).cursor is None
    assert write_report(RUN, context, interrupted=False).rows == RowCounts(read=ROWS, written=ROWS)
    found = sorted(server.dynamodb.items(TABLE), key=lambda item: item["pk"]["B"])
    assert found == ([] if mode == "delete" else [*map(_item, range(ROWS))])
