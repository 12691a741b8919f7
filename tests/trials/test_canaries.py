"""Failed runs tell no cell, either."""

from __future__ import annotations

import gzip
import os
import signal

import pytest

from tests.cli.console import PROGRAM
from tests.e2e.canaries import assert_silent, content, good, server
from tests.e2e.processes import started, until

__all__ = ["server"]


@pytest.mark.parametrize("why", ["refused", "worker killed", "cut gzip", "bad header"])
def test_failed_run_tells_no_cell(console, server, why):
    data, name = content(), "birds.csv"
    if why == "cut gzip":
        data, name = gzip.compress(content() * 20)[:-9], "birds.csv.gz"
    if why == "bad header":
        data = f'id,n,"name\n{good(1)}'.encode()
    if why == "refused":
        server.faults.decide = lambda operation, _: (
            "quotes_refused" if operation == "BatchWriteItem" else None
        )
    console.write(name, data)
    command = [
        *(PROGRAM, "import", name, "birds", "--run-id", "r", "--ledger", "led"),
        *("--types", "n=N", "--processes", "2", "--chunk-bytes", "4000"),
    ]
    if why == "worker killed":
        command += ["--max-wcu", "50"]
    where = {"AWS_ENDPOINT_URL_DYNAMODB": server.endpoint}
    with started(console, command, **where) as running:
        if why == "worker killed":
            until(lambda: len(server.dynamodb.items("birds")) > 20, "nothing was written")
            os.kill(running.workers()[0], signal.SIGKILL)
        ended = running.ended()
    assert ended.code in (1, 3), ended.err
    if why == "bad header":
        assert "BadHeader" in ended.err
    assert_silent(console, ended.out, ended.err)
