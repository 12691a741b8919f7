"""Executions that shall load each object once."""

from __future__ import annotations

from tests.e2e_stack.deployed import SOURCES
from tests.e2e_stack.files import plain
from tests.e2e_stack.runs import Run


def test_execution_over_what_is_loaded_ends_in_succeeded(stack):
    table, key = stack.cloud.table(), stack.put(plain(5))
    payload = {
        "source": {"bucket": SOURCES, "key": key},
        "target": {"table": table},
    }

    def load(run, **more):
        arn = stack.start({**payload, **more, "run": {"id": run, "once": True}})
        return Run(stack, run, arn)

    first = load("once-first").ended
    assert (first.status, first.error) == ("SUCCEEDED", None)
    again = load("once-again")
    assert again.ended.status == "SUCCEEDED"
    report = again.json("report.json")
    assert (report["status"], report["rows"]["read"]) == ("ALREADY_LOADED", 0)
    assert report["loaded_before"]["run"] == "once-first"
    # Another filter of the same file is another load.
    other = load("once-other", where=["name=nobody"])
    assert other.ended.status == "SUCCEEDED"
    assert other.json("report.json")["status"] == "SUCCEEDED"
