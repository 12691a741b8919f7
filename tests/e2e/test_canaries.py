"""Row data is in the table and the rejects, and nowhere else, however much goes wrong."""

from __future__ import annotations

import json

from tests.e2e.canaries import ROWS, assert_silent, content, server
from tests.faults.catalogue import SURVIVABLE

__all__ = ["server"]


def test_run_full_of_faults_tells_no_cell(console, server):
    console.write("birds.csv", content())
    names = [*SURVIVABLE, "quotes_500", "quotes_throttle"]
    server.fail_at_random(5, names, 0.3, ["BatchWriteItem", "DescribeTable"])
    where = {"AWS_ENDPOINT_URL_DYNAMODB": server.endpoint}
    run = ("--run-id", "r", "--ledger", "led")
    ended = console.ddbload(
        *("import", "birds.csv", "birds", *run, "--types", "n=N", "--processes", "2"),
        *("--chunk-bytes", "9000", "--rejects", "rejects.jsonl"),
        **where,
    )
    assert ended.code == 3, ended.err
    assert len(server.dynamodb.items("birds")) == ROWS
    rejects = console.path("rejects.jsonl").read_text().splitlines()
    causes = {json.loads(line)["cause"] for line in rejects}
    assert len(causes) >= 6, causes
    outputs = [ended.out, ended.err]
    for command in (["status", "r"], ["report", "r"], ["rejects", "r", "--summary"]):
        shown = console.ddbload(*command, "--ledger", "led", **where)
        outputs += [shown.out, shown.err]
    assert_silent(console, *outputs)
