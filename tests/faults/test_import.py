"""Whole imports with every fault and engine, plain and over TLS."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.signing import signers
from ddbload.context import AccessPolicy, Context
from ddbload.contracts.options import ENGINES
from ddbload.contracts.results import Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.states import ImportTask, PreflightTask
from ddbload.steps.import_chunk import import_chunk
from ddbload.steps.preflight import preflight
from ddbload.steps.report import write_report
from tests.fakes.dynamodb_tables import keyed
from tests.faults.catalogue import LIES, SURVIVABLE
from tests.faults.certificates import Certificate, make
from tests.faults.request_helpers import ShortPauses
from tests.faults.server import FaultServer
from tests.unit.aws.response_helpers import CREDENTIALS, isolate
from tests.unit.steps.expected import status_for
from tests.unit.steps.world import MemoryStore

RUN = "run-1"
_tables = itertools.count()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Certificate:
    return make(Path(tmp_path_factory.mktemp("certificate")), "127.0.0.1")


@pytest.fixture(scope="module", params=["plain", "TLS"])
def server(request, certificate) -> Iterator[FaultServer]:
    tls = None if request.param == "plain" else certificate.server()
    with FaultServer(drip_seconds=0.03, stall_seconds=0.03, tls=tls) as running:
        yield running


@pytest.fixture(autouse=True)
def settings(monkeypatch, certificate) -> None:
    isolate(monkeypatch, **CREDENTIALS, AWS_REGION="us-east-1")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate.chain))


@pytest.fixture
def imported(server, tmp_path) -> Iterator[Callable[..., Imported]]:
    """Import `count` rows into a new table, chunk by chunk."""

    def run(engine: str, rows: int, **options: Any) -> Imported:
        return _import(server, tmp_path, engine, rows, options)

    yield run
    server.faults.decide, server.keys, server.ahead = None, None, 0.0
    assert server.faults.left() == {}
    assert server.dynamodb.overlaps == []


@dataclass
class Imported:
    """Result of an import."""

    rows: int
    report: Report
    table: dict[str, str]
    faults: list[str | None]

    def assert_complete(self) -> None:
        assert self.table == {str(row): f"row {row}" for row in range(self.rows)}
        assert self.report.status == status_for(self.report.rows)
        assert self.report.rows == RowCounts(read=self.rows, written=self.rows)


def _import(
    server: FaultServer, folder: Path, engine: str, rows: int, options: dict[str, Any]
) -> Imported:
    table = f"table{next(_tables)}"
    server.dynamodb.create_table(**keyed(table, id="N"))
    file = folder / "rows.csv"
    file.write_text("id,name\n" + "".join(f"{row},row {row}\n" for row in range(rows)))
    context = Context(
        store=MemoryStore(),
        clients=Clients(AwsSettings(endpoint_url=server.endpoint), connections=6),
        access=AccessPolicy(paths=True),
        rng=ShortPauses(1),
    )
    payload = {
        "source": {"path": str(file)},
        "target": {"table": table},
        "options": {"engine": engine, "concurrency": 6, "chunk_bytes": 12_000, **options},
    }
    assert preflight(PreflightTask(payload, RUN, None), context).cursor is None
    before = len(server.requests)
    for chunk in context.ledger(RUN).find_manifest() or ():
        assert not import_chunk(ImportTask(RUN, (chunk,)), context).chunks
    # boto3 asks for the table by this machine's clock.
    server.ahead = 0.0
    found = {i["id"]["N"]: i["name"]["S"] for i in server.dynamodb.items(table)}
    faults = [request.fault for request in server.requests[before:]]
    return Imported(rows, write_report(RUN, context), found, faults)


@pytest.mark.parametrize("engine", ENGINES)
def test_import_succeeds_with_each_fault(server, imported, engine):
    for fault in (*SURVIVABLE, *LIES):
        server.faults.add("BatchWriteItem", None, fault)
    found = imported(engine, 2500)
    found.assert_complete()
    assert set(found.faults) == {None, *SURVIVABLE, *LIES}
    assert found.report.work.throttled >= 3


# Who signs, and by which clock


def test_import_succeeds_with_renewed_credentials(server, imported, monkeypatch, tmp_path):
    """Credentials are renewed before they expire, and the earlier ones stay valid for a while."""
    program = tmp_path / "renew.py"
    program.write_text(RENEWING.format(count=str(tmp_path / "count")))
    config = tmp_path / "config"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {program}\n")
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setattr(signers, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(server.dynamodb, "latency", 0.01)
    signed = Signatures()
    server.keys = signed
    imported("async", 600).assert_complete()
    assert len(signed.keys) > 3


RENEWING = """
import json, pathlib, time
count = pathlib.Path({count!r})
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
# So near their end that botocore does not use them for long.
ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
print(json.dumps({{"Version": 1, "AccessKeyId": f"key{{number}}", "SecretAccessKey": "secret",
                  "SessionToken": "token", "Expiration": ends}}))
"""


class Signatures:
    """Set of access keys that accepts and records any key."""

    def __init__(self) -> None:
        self.keys: set[object] = set()

    def __contains__(self, key: object) -> bool:
        self.keys.add(key)
        return True


def test_import_reports_expired_credentials(server, imported, monkeypatch, tmp_path):
    """Write new credentials into the shared file, as after a login."""
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    shared = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))

    def login(name: str) -> None:
        shared.write_text(f"[default]\naws_access_key_id={name}\naws_secret_access_key=b\n")
        server.keys = {name}

    login("first")
    asked = 0

    def decide(operation: str, _params: Any) -> None:
        nonlocal asked
        asked += operation == "BatchWriteItem"
        if asked == 10:
            login("second")

    server.faults.decide = decide
    imported("async", 1000).assert_complete()
    assert asked > 10


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_async_engine_corrects_a_wrong_clock(server, imported, monkeypatch, ahead):
    real = server.dynamodb.describe_table

    def right_until_the_table_is_known(**params: Any) -> Any:
        # What boto3 asks goes by this machine's clock.
        server.ahead = ahead
        return real(**params)

    monkeypatch.setattr(server.dynamodb, "describe_table", right_until_the_table_is_known)
    imported("async", 300).assert_complete()
