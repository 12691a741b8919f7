"""What was asked of a run is in the ledger before anything can fail."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.context import AccessPolicy
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Resume
from ddbload.contracts.states import PreflightTask, RunRequest
from ddbload.errors import DdbloadError, RunNotFound
from ddbload.ledger.run_objects import newest_runs
from ddbload.steps.preflight import preflight, resumed_payload
from tests.unit.steps.world import RUN, World

ARN = "arn:aws:states:eu-west-1:1:execution:m:run-1"
DATA = b"id,n\na,1\n"


def fail(world: World, payload: Any = None, execution: str | None = None) -> DdbloadError:
    task = PreflightTask(payload or world.payload, RUN, execution=execution)
    with pytest.raises(DdbloadError) as raised:
        preflight(task, world.context())
    return raised.value


@pytest.mark.parametrize("execution", [None, ARN])
@pytest.mark.parametrize("broken", ["table", "source", "dialect", "deployment"])
def test_request_is_in_the_ledger_when_preflight_fails(broken, execution):
    world = World(DATA, make_table=broken != "table")
    if broken == "source":
        world.s3.delete_object(Bucket="bucket", Key="in/file.csv")
    if broken == "dialect":
        world.source = {"delimiter": "x", "quote": "x"}
    if broken == "deployment":
        world.access = AccessPolicy(tables=frozenset())
    fail(world, execution=execution)
    request = world.ledger.find_request()
    assert request is not None
    assert request.payload == Payload.from_json(world.payload)
    assert (request.run, request.created, request.failure) == (RUN, 1000.0, None)
    assert (request.folder is None) == (execution is not None)
    assert world.ledger.find_record() is None
    assert newest_runs(world.store) == [RUN]
    assert world.ledger.find_execution() == execution


def test_failed_run_is_started_over_from_its_request():
    world = World(DATA, make_table=False)
    fail(world)
    resume = Resume(RUN, {"max_rejects": 3})
    payload = resumed_payload(resume, world.ledger)
    assert (payload.run, payload.options.reject_limit.rows) == (RUN, 3)
    world.create_table()
    preflight(PreflightTask({"run": {"resume_of": RUN}, "options": {}}, "later"), world.context())
    assert world.ledger.record().run == RUN
    with pytest.raises(RunNotFound):
        resumed_payload(Resume("unknown", {}), world.context().ledger("unknown"))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"path": "a.csv"}, {"path": "/work/in/a.csv"}),
        ({"path": "/b.csv"}, {"path": "/b.csv"}),
        ({"manifest": "list"}, {"manifest": "/work/in/list"}),
        ({"manifest": "s3://b/list"}, {"manifest": "s3://b/list"}),
        ({"sources": ["a", "s3://b/k"]}, {"sources": ("/work/in/a", "s3://b/k")}),
        ({"bucket": "b", "key": "k"}, {"bucket": "b", "key": "k"}),
    ],
)
def test_local_paths_are_those_of_the_first_folder_when_started_over(given, meant):
    payload = Payload.from_json({"source": given, "target": {"table": "books"}})
    source = RunRequest(RUN, payload, 1.0, "/work/in").again({}).source
    assert {name: getattr(source, name) for name in meant} == meant
