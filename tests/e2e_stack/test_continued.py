"""Functions that run out of time hand their cursor on, and the next invocation goes on from it."""

from __future__ import annotations

import json

from tests.e2e_stack.conftest import OVERDUE
from tests.e2e_stack.files import plain
from tests.e2e_stack.runs import Run, load


def test_preflight_continues_in_next_invocation(hasty_loads):
    scanned = hasty_loads["preflight"]
    ended = scanned.succeeds()
    parts = len(scanned.run.names("manifest/"))
    assert ended.entered("Preflight") == parts
    assert parts > 3
    assert ended.output["chunks"] > parts


def test_listing_continues_in_next_invocation(hasty_listing):
    run, table = hasty_listing
    ended = run.ended
    assert (ended.status, ended.cause) == ("SUCCEEDED", None)
    parts = [name for name in run.names("listing/") if "/part-" in name]
    assert len(parts) == 1
    assert ended.entered("Preflight") == len(parts) + len(run.names("manifest/")) > 3
    assert ended.output["rows"]["written"] == len(run.stack.cloud.items(table)) == 6


def test_import_continues_in_next_invocation(hasty_loads):
    imported = hasty_loads["import"]
    assert imported.succeeds().output["chunks"] == 1
    segments = imported.run.segments()
    assert len(segments) > 3
    assert [each["proven"] for each in segments] == [False] * (len(segments) - 1) + [True]


def test_run_fails_when_nothing_progresses(hasty, hasty_loads, console):
    """Three invocations that settle nothing end their chunk; `resume` takes it up again."""
    assert hasty_loads["import"].run.ended.status == "SUCCEEDED"
    put_back = hasty.configure("import_chunk", DDBLOAD_RESERVE_SECONDS=OVERDUE)
    try:
        stuck = load(hasty, plain(20), run="stuck", chunk_bytes=500)
        ended = stuck.fails("NoProgress")
    finally:
        put_back()
    assert "settled no row in 3 invocations" in ended.cause
    report = stuck.run.json("report.json")
    chunks = stuck.run.chunks
    assert [each["chunk"] for each in report["failures"]] == list(range(chunks))
    assert (report["rows"]["read"], report["chunks_done"]) == (0, 0)
    assert hasty.cloud.items(stuck.table) == []

    resumed = console.ddbload("resume", "stuck", "--stack", hasty.name, "--json")
    assert resumed.code == 0
    assert json.loads(resumed.out)["rows"]["written"] == 20
    stuck.is_loaded()
    assert Run(hasty, "stuck").status == "FAILED"
