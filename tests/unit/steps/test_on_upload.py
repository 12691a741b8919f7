"""An upload starts one run."""

from __future__ import annotations

import pytest

from ddbload.contracts.payload import Payload
from ddbload.contracts.states import PreflightTask
from ddbload.contracts.upload_rule import UploadRule
from ddbload.errors import InvalidPayload, ServiceUnavailable
from ddbload.steps.preflight import preflight
from ddbload.steps.uploads import (
    LOADED_BEFORE,
    NOT_MAPPED,
    OF_AN_EXPORT,
    STARTED,
    STARTED_BEFORE,
)
from tests.fakes.stepfunctions import client_error
from tests.unit.steps.machine import execute
from tests.unit.steps.uploads import Trigger, event
from tests.unit.steps.world import BUCKET, KEY, TABLE


@pytest.fixture
def trigger() -> Trigger:
    return Trigger()


def test_run_loads_uploaded_version(trigger):
    done = trigger(event(**{"version-id": "v7"}))
    assert done["outcome"] == STARTED
    (given,) = trigger.inputs()
    payload = Payload.from_json(given)
    source = payload.source
    assert (source.bucket, source.key, source.version_id, source.etag) == (BUCKET, KEY, "v7", "e1")
    assert (payload.table, payload.run) == (TABLE, done["run"])
    assert done["execution"].endswith(f":{done['run']}")


def test_second_delivery_starts_nothing(trigger):
    first = trigger(event())
    assert trigger(event())["execution"] in (None, first["execution"])
    trigger.stepfunctions.end(first["execution"], "FAILED")
    assert trigger(event())["outcome"] == STARTED_BEFORE
    assert len(trigger.stepfunctions.started) == 1


@pytest.mark.parametrize("done", [False, True])
def test_second_delivery_starts_nothing_when_step_functions_forgot_execution(trigger, done):
    """A name can be used again after 90 days."""
    etag = trigger.world.s3.head_object(Bucket=BUCKET, Key=KEY)["ETag"].strip('"')
    run = trigger(event(etag=etag))["run"]
    (given,) = trigger.inputs()
    if done:
        assert execute(trigger.world, given, run)["status"] == "SUCCEEDED"
    else:
        preflight(PreflightTask(given, run), trigger.world.context())
    trigger.stepfunctions.started.clear()
    wanted = LOADED_BEFORE if done else STARTED_BEFORE
    assert trigger(event(etag=etag)) == {"outcome": wanted, "run": run, "execution": None}
    assert not trigger.stepfunctions.started


@pytest.mark.parametrize(
    "other",
    [
        event(key="in/other.csv"),
        event(etag="e2"),
        event(**{"version-id": "v2"}),
        event(bucket="another"),
    ],
)
def test_other_version_starts_another_run(trigger, other):
    assert trigger(event())["run"] != trigger(other)["run"]
    assert len(trigger.stepfunctions.started) == 2


@pytest.mark.parametrize("key", ["other/a.csv", "i", "in/folder/", "In/a.csv"])
def test_upload_without_rule_starts_nothing(trigger, key):
    assert trigger(event(key=key)) == {"outcome": NOT_MAPPED, "run": None, "execution": None}
    assert not trigger.stepfunctions.started


def test_rule_with_bucket_then_longest_prefix_decides(trigger):
    trigger.rules = (
        UploadRule("", "everything"),
        UploadRule("in/books/", "books"),
        UploadRule("in/", "rest"),
        UploadRule("", "own", bucket="own"),
    )
    for given in (event(key="x"), event(key="in/x"), event(key="in/books/x")):
        trigger(given)
    trigger(event(bucket="own", key="in/books/x"))
    tables = [given["target"]["table"] for given in trigger.inputs()]
    assert tables == ["everything", "rest", "books", "own"]


EXPORT = "in/AWSDynamoDB/01693685827463-2d8752fd"
SUMMARY = f"{EXPORT}/manifest-summary.json"


@pytest.mark.parametrize("said", [None, "auto", "dynamodb-export"])
def test_export_starts_one_run_when_summary_is_uploaded(trigger, said):
    trigger.rules = (UploadRule("in/", TABLE, source={"format": said}),)
    for name in (
        f"{EXPORT}/_started",
        f"{EXPORT}/data/asdl123dasas.json.gz",
        # Of an incremental one.
        "in/AWSDynamoDB/data/mv3x2lk2g4r.json.gz",
        f"{EXPORT}/manifest-files.json",
        f"{EXPORT}/manifest-files.md5",
        f"{EXPORT}/manifest-summary.md5",
    ):
        done = trigger(event(key=name))
        assert done == {"outcome": OF_AN_EXPORT, "run": None, "execution": None}
    assert trigger(event(key=SUMMARY))["outcome"] == STARTED
    (given,) = trigger.inputs()
    assert (given["source"]["key"], given["source"]["format"]) == (SUMMARY, "dynamodb-export")


@pytest.mark.parametrize(("said", "data"), [("auto", STARTED), ("dynamodb-export", OF_AN_EXPORT)])
def test_copied_export_starts_run_under_any_prefix(trigger, said, data):
    """Its manifests are told by their names, its data only where the rule says that there are."""
    trigger.rules = (UploadRule("in/", TABLE, source={"format": said}),)
    assert trigger(event(key="in/mine/data/a.json.gz"))["outcome"] == data
    assert trigger(event(key="in/mine/manifest-files.json"))["outcome"] == OF_AN_EXPORT
    assert trigger(event(key="in/mine/manifest-summary.json"))["outcome"] == STARTED
    assert trigger.inputs()[-1]["source"]["format"] == "dynamodb-export"


@pytest.mark.parametrize("key", ["in/_started", "in/AWSDynamoDB/a.csv", "in/myAWSDynamoDB/x/a.csv"])
@pytest.mark.parametrize("said", ["auto", "json"])
def test_file_that_resembles_export_starts_run(trigger, key, said):
    trigger.rules = (UploadRule("in/", TABLE, source={"format": said}),)
    assert trigger(event(key=key))["outcome"] == STARTED
    assert trigger.inputs()[0]["source"]["format"] == said


def test_failed_start_is_raised_so_that_event_is_redelivered(trigger):
    trigger.stepfunctions.failures = [client_error("InternalError", "x", 500)] * 9
    with pytest.raises(ServiceUnavailable):
        trigger(event())
    trigger.stepfunctions.failures = []
    assert trigger(event())["outcome"] == STARTED


def test_old_content_uploaded_again_starts_another_run(trigger):
    """Unversioned bucket: deliveries of one upload have the same sequencer."""
    first, again = event(), event(sequencer="01")
    runs = [trigger(each)["run"] for each in (first, again, first, again)]
    assert runs[0] != runs[1]
    assert runs[2:] == runs[:2]
    assert len(trigger.stepfunctions.started) == 2


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {},
        {"detail": []},
        {"detail": {"bucket": {"name": "b"}, "object": {"key": "k"}}},
        {"detail": {"bucket": {}, "object": {"key": "k", "etag": "e"}}},
    ],
)
def test_invalid_event_raises_invalid_payload(trigger, given):
    with pytest.raises(InvalidPayload):
        trigger(given)
