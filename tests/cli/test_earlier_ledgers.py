"""Ledgers that earlier versions wrote are reported, resumed and retried by this one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.golden.runs import (
    FINISHED,
    HALF_DONE,
    INSERT_INTERRUPTED,
    INSERT_KILLED,
    LEDGER,
    LEDGERS,
    RUNS,
    SEVERAL,
    TABLE,
    WITH_REJECTS,
    Golden,
    Item,
    Place,
    Run,
    load,
)

VERSION = 2
STOPPED = [HALF_DONE, INSERT_KILLED, INSERT_INTERRUPTED, SEVERAL]
DONE = [FINISHED, WITH_REJECTS]
COUNTS = {
    "finished": {"read": 60, "written": 60, "rejected": 0, "superseded": 0, "skipped": 0},
    "half-done": {"read": 200, "written": 200, "rejected": 0, "superseded": 0, "skipped": 0},
    "with-rejects": {"read": 10, "written": 3, "rejected": 7, "superseded": 0, "skipped": 0},
    "insert-killed": {"read": 90, "written": 86, "rejected": 0, "superseded": 0, "skipped": 4},
    "insert-interrupted": {"read": 90, "written": 86, "rejected": 0, "superseded": 0, "skipped": 4},
    "several": {"read": 200, "written": 199, "rejected": 1, "superseded": 0, "skipped": 0},
}
"""Rows of each run at its end, whether it was stopped meanwhile or not."""
for counts in COUNTS.values():
    # These versions did not count rows that are left out.
    counts["filtered"] = 0


def ids(run: Run) -> str:
    return run.name


@pytest.fixture
def place(console, s3):
    with Place(console, s3) as made:
        yield made


def restored(place: Place, run: Run) -> Golden:
    """Set up source, table and ledger as the earlier version left them."""
    golden = load(VERSION, run.name)
    place.put_objects(run)
    place.put_items(golden.items)
    place.write_ledger(golden.ledger)
    return golden


def as_printed(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report of those versions as `--json` prints it now."""
    return {**report, "rows": {**report["rows"], "filtered": 0}, "uncertain": 0}


def by_key(items: list[Item]) -> dict[str, Item]:
    found = {item["id"]["S"]: item for item in items}
    assert len(found) == len(items)
    return found


def row_keys(run: Run) -> list[str]:
    """List the partition keys of all rows in the source's order; each begins with its number."""
    return [f"r{number:03}" for number in range(COUNTS[run.name]["read"])]


def resumed(place: Place, run: Run) -> tuple[dict[str, Any], int, list[str]]:
    """Resume a run; return its JSON, its exit status, and the key of each effective write."""
    before = len(place.server.dynamodb.writes)
    ended = place.ddbload("resume", run.name, "--ledger", LEDGER, "--processes", "1", "--json")
    writes = place.server.dynamodb.writes[before:]
    keys = [write.item["id"]["S"] for write in writes if write.item is not None]
    assert len(keys) == len(writes)
    return json.loads(ended.out), ended.code, keys


def test_each_run_has_a_golden_file():
    names = {path.stem for path in (LEDGERS / f"version_{VERSION}").iterdir()}
    assert names == {run.name for run in RUNS} == COUNTS.keys()


@pytest.mark.parametrize("run", RUNS, ids=ids)
def test_the_files_are_of_their_version(run):
    golden = load(VERSION, run.name)
    record = json.loads(golden.ledger[f"runs/{run.name}/run.json"])
    assert record["ledger_version"] == VERSION


@pytest.mark.parametrize("run", [HALF_DONE, INSERT_INTERRUPTED, SEVERAL], ids=ids)
def test_an_interrupted_run_has_a_segment_that_ends_within_its_chunk(run):
    golden = load(VERSION, run.name)
    manifest = json.loads(golden.ledger[f"runs/{run.name}/manifest.json"])
    (done,), (stopped,) = golden.chain_ends()[0], golden.chain_ends()[1]
    assert done == (manifest[0]["start"], manifest[0]["end"], True)
    assert manifest[1]["start"] < stopped[1] < manifest[1]["end"]
    assert not stopped[2]
    assert len(manifest) > 2


def test_a_killed_run_has_attempts_and_items_beyond_its_segments():
    golden = load(VERSION, INSERT_KILLED.name)
    prefix = f"runs/{INSERT_KILLED.name}/attempts/00001/"
    assert [path for path in golden.ledger if path.startswith(prefix)]
    assert golden.chain_ends().keys() == {0}
    counted = golden.report["rows"]["read"]
    assert set(row_keys(INSERT_KILLED)[counted : counted + 10]) <= set(golden.keys)


@pytest.mark.parametrize("run", RUNS, ids=ids)
def test_report_says_the_same(place, run):
    golden = restored(place, run)
    assert place.report(run.name) == (as_printed(golden.report), golden.exit_code)
    assert place.read_ledger() == golden.ledger


@pytest.mark.parametrize("run", RUNS, ids=ids)
def test_rejects_are_the_same(place, run):
    golden = restored(place, run)
    assert place.rejects(run.name) == golden.rejects


@pytest.mark.parametrize("run", STOPPED, ids=ids)
def test_status_offers_resume_when_the_run_was_stopped(place, run):
    restored(place, run)
    ended = place.ddbload("status", run.name, "--ledger", LEDGER, "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["status"]) == (0, "INTERRUPTED")
    assert found["resume"] == f"ddbload resume {run.name} --ledger {LEDGER}"


@pytest.mark.parametrize("run", STOPPED, ids=ids)
def test_resume_writes_exactly_the_rows_that_are_missing(place, run):
    golden = restored(place, run)
    earlier = place.read_ledger()
    found, code, written = resumed(place, run)

    rejected = COUNTS[run.name]["rejected"]
    assert found["rows"] == COUNTS[run.name]
    assert code == (3 if rejected else 0)
    assert found["status"] == ("SUCCEEDED_WITH_REJECTS" if rejected else "SUCCEEDED")

    assert by_key(place.items) == by_key(golden.unbroken)
    # What is there already is not written again, neither the run's rows nor others' items.
    assert Counter(written) == Counter(golden.unbroken_keys - set(golden.keys))
    after = place.read_ledger()
    kept = {path for path in earlier if "/chunks/" in path or "/manifest/" in path}
    assert {path: after[path] for path in kept} == {path: earlier[path] for path in kept}

    again, code_again = place.report(run.name)
    assert (again["rows"], again["status"], code_again) == (found["rows"], found["status"], code)


@pytest.mark.parametrize("run", [INSERT_KILLED, INSERT_INTERRUPTED], ids=ids)
def test_resume_tells_its_own_items_from_those_of_others(place, run):
    """Two rows find identical items of another run; items of this run count as written."""
    restored(place, run)
    found, _, _ = resumed(place, run)
    assert found["identical"] == 2


@pytest.mark.parametrize("run", STOPPED, ids=ids)
def test_resume_reads_the_same_rows_when_the_table_has_none(place, run):
    """Rows without a segment are read from the source, not guessed from the table."""
    golden = load(VERSION, run.name)
    place.put_objects(run)
    place.write_ledger(golden.ledger)
    _, _, written = resumed(place, run)
    uncounted = set(row_keys(run)[golden.report["rows"]["read"] :])
    assert set(written) == uncounted & golden.unbroken_keys
    assert len(written) == len(set(written))
    items = by_key(place.items)
    if not run.present:
        unbroken = by_key(golden.unbroken)
        assert items == {key: unbroken[key] for key in written}


@pytest.mark.parametrize("run", DONE, ids=ids)
def test_resume_leaves_a_run_that_is_done(place, run):
    golden = restored(place, run)
    found, code, written = resumed(place, run)
    assert (found["status"], found["rows"]) == (golden.report["status"], COUNTS[run.name])
    assert code == golden.exit_code
    assert written == []
    assert by_key(place.items) == by_key(golden.unbroken)


def test_the_same_import_again_continues_a_run(place):
    golden = restored(place, HALF_DONE)
    ended = place.ddbload(*HALF_DONE.command)
    assert (ended.code, json.loads(ended.out)["rows"]) == (0, COUNTS[HALF_DONE.name])
    assert by_key(place.items) == by_key(golden.unbroken)


def test_a_changed_source_is_refused(place):
    golden = restored(place, HALF_DONE)
    changed = {key: data.replace(b"title", b"TITLE") for key, data in HALF_DONE.objects.items()}
    place.put_objects(Run(HALF_DONE.name, changed))
    found, code, written = resumed(place, HALF_DONE)
    assert (code, found["error"]["name"]) == (1, "SourceChanged")
    assert written == []
    assert by_key(place.items) == by_key(golden.items)


def test_rejects_have_several_causes_and_a_line_each():
    golden = load(VERSION, WITH_REJECTS.name)
    causes = [json.loads(line)["cause"] for line in golden.rejects]
    assert causes == [
        *("not_a_number", "field_count", "field_count", "empty_key"),
        *("bad_encoding", "bad_quote", "number_out_of_range"),
    ]


def test_retry_loads_mended_rejects(place):
    golden = restored(place, WITH_REJECTS)
    mended = {3: "r2,2,two", 4: "r3,3,three", 6: "r5,5,five", 8: 'r7,7,"a ""good"" quote"'}
    rejects = [json.loads(line) for line in place.rejects(WITH_REJECTS.name)]
    lines = [
        json.dumps({**reject, "raw": mended[reject["line"]]})
        for reject in rejects
        if reject["line"] in mended
    ]
    place.console.write("mended.jsonl", "".join(f"{line}\n" for line in lines))
    ended = place.ddbload(
        *("rejects", WITH_REJECTS.name, "--retry", "mended.jsonl", "--run-id", "mended"),
        *("--ledger", LEDGER, "--json"),
    )
    found = json.loads(ended.out)
    assert (ended.code, found["run"], found["status"]) == (0, "mended", "SUCCEEDED")
    assert (found["rows"]["read"], found["rows"]["written"]) == (4, 4)
    titles = {"r2": "two", "r3": "three", "r5": "five", "r7": 'a "good" quote'}
    assert by_key(place.items) == by_key(golden.unbroken) | {
        key: {"id": {"S": key}, "n": {"N": key[1:]}, "title": {"S": title}}
        for key, title in titles.items()
    }
    assert place.report(WITH_REJECTS.name) == (as_printed(golden.report), golden.exit_code)


def test_a_half_done_run_of_several_objects_needs_all_of_its_listing(place):
    golden = load(VERSION, SEVERAL.name)
    files = dict(golden.ledger)
    (page,) = [path for path in files if "/listing/" in path]
    del files[page]
    place.put_objects(SEVERAL)
    place.write_ledger(files)
    ended = place.ddbload("resume", SEVERAL.name, "--ledger", LEDGER, "--json")
    assert (ended.code, json.loads(ended.out)["error"]["name"]) == (1, "LedgerDamaged")
    assert place.server.dynamodb.items(TABLE) == []
