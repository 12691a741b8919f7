"""Objects that ddbload did not write, in a ledger that others may write to."""

from __future__ import annotations

import pytest

from ddbload.contracts.results import Failure
from ddbload.errors import LedgerDamaged
from ddbload.ledger.history import History
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.store import FolderStore, Store

DEEP = b"[" * 200_000
"""JSON that no parser of Python's reads to its end."""


@pytest.fixture
def store(tmp_path) -> Store:
    return FolderStore(tmp_path)


@pytest.mark.parametrize("data", [DEEP, b'{"run":' + DEEP, b"9" * 100_000, b"\xff", b"null", b"[]"])
def test_objects_that_cannot_be_decoded_are_damage(store, data):
    for name in ("run.json", "control.json", "manifest.json", "execution.json"):
        store.put(f"runs/r/{name}", data)
    store.put("runs/r/failures/00000.json", data)
    store.put("history/t/id/object/x/r.jsonl", data)
    ledger = Ledger(store, "r")
    reads = {
        "run.json": ledger.find_record,
        "control.json": ledger.find_control,
        "execution.json": ledger.find_execution,
        "failures": ledger.failures,
        "history": lambda: list(History(store).read(["history/t/id/object/x/r.jsonl"])),
    }
    if data != b"[]":
        reads["manifest"] = ledger.find_manifest
    for name, read in reads.items():
        with pytest.raises(LedgerDamaged):
            pytest.fail(f"{name} was read: {read()}")


def test_foreign_names_in_the_history_are_left_out(store):
    for name in ("t", "t/x.jsonl", "t/id/object/x", "t/id/object/x/r.json", "t/id/other/x/r.jsonl"):
        store.put(f"history/{name}y", b"")
    own = "history/t/id/objects/-/r-0.jsonl"
    store.put(own, b"")
    assert History(store).table_names("t", "id") == [own]


def test_cause_of_a_function_may_be_anything():
    assert Failure.caught({"Error": "E", "Cause": DEEP.decode()}).message == "[" * 2000 + "..."
    for cause in ("a \ud800", '{"errorMessage": "a \\ud800"}'):
        assert Failure.caught({"Error": "E", "Cause": cause}).message == "a \\ud800"


def test_failure_at_a_time_that_no_calendar_has_is_damage(store):
    store.put("runs/r/failures/00000.json", b'{"name":"E","message":"m","chunk":0,"at":1e300}')
    with pytest.raises(LedgerDamaged):
        Ledger(store, "r").failures()
