"""Functions that run obey `ddbload cancel`, and what is left is imported by `ddbload resume`."""

from __future__ import annotations

import json

from tests.e2e.processes import until
from tests.e2e_stack.deployed import SOURCES
from tests.e2e_stack.files import plain
from tests.e2e_stack.runs import Run


def test_cancelled_run_sends_nothing_until_it_is_resumed(stack, console):
    table = stack.cloud.table()
    source = {"bucket": SOURCES, "key": stack.put(plain(200))}
    options = {"max_wcu": 20, "workers": 2, "chunk_bytes": 2000}
    payload = {"source": source, "target": {"table": table}, "options": options}
    run = Run(stack, "to-cancel", stack.start(payload, "to-cancel"))
    until(lambda: stack.cloud.items(table) or run.status != "RUNNING", "nothing is written")
    assert run.status == "RUNNING", run.ended

    cancelled = console.ddbload("cancel", "to-cancel", "--stack", stack.name, "--json")
    assert (cancelled.code, json.loads(cancelled.out)["status"]) == (0, "CANCELLED")
    written = len(stack.cloud.items(table))
    assert written < 200
    assert run.ended.status in ("ABORTED", "FAILED")
    states = {name.split("-")[2] for name in run.names("progress/")}
    assert states == {"i"}

    limited = console.ddbload("limit", "to-cancel", "--max-wcu", "none", "--stack", stack.name)
    assert limited.code == 0
    assert len(stack.cloud.items(table)) == written
    resumed = console.ddbload("resume", "to-cancel", "--stack", stack.name, "--json")
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out)["rows"]["written"] == 200
    assert len(stack.cloud.items(table)) == 200
