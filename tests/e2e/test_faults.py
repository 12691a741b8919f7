"""Import into a DynamoDB that answers three in ten requests wrongly, late or never."""

from __future__ import annotations

import json

import pytest

from tests.fakes.dynamodb_tables import keyed
from tests.faults.catalogue import SURVIVABLE
from tests.faults.server import FaultServer

ROWS = 1500
TABLE = keyed("faults", id="N")


@pytest.mark.parametrize(("engine", "seed"), [("threads", 11), ("sync", 12), ("async", 13)])
def test_import_writes_every_row_when_connections_fail(console, engine, seed):
    console.write("a.csv", "id,name\n" + "".join(f"{n},name {n}\n" for n in range(ROWS)))
    with FaultServer(drip_seconds=0.05, stall_seconds=0.1) as server:
        server.dynamodb.create_table(**TABLE)
        server.fail_at_random(seed, SURVIVABLE, 0.3, ["BatchWriteItem", "DescribeTable"])
        ended = console.ddbload(
            *("import", "a.csv", "faults", "--json", "--engine", engine),
            *("--processes", "2", "--chunk-bytes", "6000", "--concurrency", "4"),
            AWS_ENDPOINT_URL_DYNAMODB=server.endpoint,
        )
        items = server.dynamodb.items("faults")
        overlaps = server.dynamodb.overlaps
        faults = {request.fault for request in server.requests} - {None}
    assert (ended.code, ended.told) == (0, "")
    found = json.loads(ended.out)
    assert found["rows"] == {
        "read": ROWS,
        "written": ROWS,
        "rejected": 0,
        "superseded": 0,
        "skipped": 0,
        "filtered": 0,
    }
    assert {item["id"]["N"]: item["name"]["S"] for item in items} == {
        str(n): f"name {n}" for n in range(ROWS)
    }
    assert overlaps == []
    assert len(faults) > 10
    assert found["retries"] > 0
    assert found["throttled"] > 0


def test_proxy_is_used_by_all_engines_but_async(console):
    """The fault server accepts absolute URLs, as a proxy does."""
    console.write("a.csv", "id,name\n1,one\n")
    with FaultServer() as server:
        server.dynamodb.create_table(**TABLE)
        settings = {
            "AWS_ENDPOINT_URL_DYNAMODB": "http://dynamodb.invalid",
            "HTTP_PROXY": server.endpoint.replace("//", "//user:secret@"),
        }
        command = ("import", "a.csv", "faults", "--run-id", "proxied")
        refused = console.ddbload(*command, "--engine", "async", **settings)
        assert refused.code == 1
        assert refused.told == (
            "ddbload: AwsConfiguration: AWS settings: a proxy is set for dynamodb.invalid"
            " (HTTP_PROXY), and --engine async does not know proxies: use --engine threads, which"
            " does, or name the host in NO_PROXY\n"
        )
        ended = console.ddbload(*command, "--engine", "threads", **settings)
        items = server.dynamodb.items("faults")
        chosen = console.ddbload(*command[:-1], "default", **settings)
    assert (ended.code, ended.told) == (0, "")
    assert (chosen.code, "so this run uses --engine threads" in chosen.err) == (0, True)
    assert len(items) == 1
