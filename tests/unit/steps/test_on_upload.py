"""An upload starts one run."""

from __future__ import annotations

import pytest

from ddbload.contracts.payload import Payload, check_run_id
from ddbload.contracts.states import PreflightTask
from ddbload.contracts.upload_rule import Upload, UploadRule
from ddbload.errors import InvalidPayload, ServiceUnavailable
from ddbload.steps.executions import (
    LOADED_BEFORE,
    NOT_MAPPED,
    OF_AN_EXPORT,
    STARTED,
    STARTED_BEFORE,
)
from ddbload.steps.preflight import preflight
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


def test_run_id_is_valid_for_step_functions_and_ledger(trigger):
    run = trigger(event(key="in/é +%&=/x y.csv"))["run"]
    assert run == check_run_id(run)
    assert len(run) <= 80


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


def test_old_content_uploaded_again_starts_another_run(trigger):
    """Unversioned bucket: deliveries of one upload have the same sequencer."""
    first, again = event(), event(sequencer="01")
    runs = [trigger(each)["run"] for each in (first, again, first, again)]
    assert runs[0] != runs[1]
    assert runs[2:] == runs[:2]
    assert len(trigger.stepfunctions.started) == 2


@pytest.mark.parametrize("sequencer", ["00", "01"])
def test_version_id_decides_in_versioned_bucket(trigger, sequencer):
    one = trigger(event(**{"version-id": "v1"}))
    same = trigger(event(sequencer=sequencer, **{"version-id": "v1"}))
    assert one["run"] == same["run"]


def test_null_version_counts_as_unversioned(trigger):
    runs = {trigger(event(sequencer=each, **{"version-id": "null"}))["run"] for each in "ab"}
    assert len(runs) == 2


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


def test_rule_gives_source_options_and_name_gives_format(trigger):
    trigger.rules = (
        UploadRule.from_json(
            {
                "prefix": "in/",
                "table": TABLE,
                "types": {"n": "N"},
                "source": {"quote": None, "columns": ["id", "n"]},
                "options": {"max_rejects": 5},
            }
        ),
    )
    trigger(event(key="in/a.tsv"))
    payload = Payload.from_json(trigger.inputs()[0])
    assert (payload.source.format, payload.source.quote) == ("auto", None)
    assert payload.source.columns == ("id", "n")
    assert (dict(payload.types), payload.options.max_rejects) == ({"n": "N"}, 5)
    trigger.rules = (UploadRule("in/", TABLE, source={"format": "csv"}),)
    trigger(event(key="in/b.tsv"))
    assert trigger.inputs()[1]["source"]["format"] == "csv"


def test_rule_passes_types_mapping_and_nulls_to_payload(trigger):
    said = {
        "types": {"n": "epoch"},
        "infer_types": True,
        "mapping": {"rename": {"a": "n"}, "drop": ["b"], "set": {"pk": "USER#{id}"}},
        "nulls": {"policy": "null", "markers": ["-"]},
        "options": {"mode": "plan"},
    }
    trigger.rules = (UploadRule.from_json({"prefix": "in/", "table": TABLE, **said}),)
    trigger(event())
    (given,) = trigger.inputs()
    assert {name: given[name] for name in said} == said
    payload = Payload.from_json(given)
    assert (payload.infer_types, payload.nulls.markers) == (True, ("-",))
    assert payload.mapping.set == {"pk": "USER#{id}"}


def test_null_in_rule_counts_as_absent(trigger):
    said = {"format": None, "delimiter": None, "encoding": None, "quote": None}
    trigger.rules = (UploadRule("in/", TABLE, source=said),)
    trigger(event())
    source = Payload.from_json(trigger.inputs()[0]).source
    assert (source.format, source.delimiter, source.encoding) == ("auto",) * 3
    assert source.quote is None


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


def test_export_data_files_start_runs_when_rule_names_format(trigger):
    trigger.rules = (UploadRule("in/", TABLE, source={"format": "dynamodb-json"}),)
    for name in ("_started", "manifest-files.json", "manifest-summary.json"):
        assert trigger(event(key=f"{EXPORT}/{name}"))["outcome"] == OF_AN_EXPORT
    assert trigger(event(key=f"{EXPORT}/data/a.json.gz"))["outcome"] == STARTED
    (given,) = trigger.inputs()
    assert given["source"]["format"] == "dynamodb-json"


@pytest.mark.parametrize("key", ["in/_started", "in/AWSDynamoDB/a.csv", "in/myAWSDynamoDB/x/a.csv"])
@pytest.mark.parametrize("said", ["auto", "json"])
def test_file_that_resembles_export_starts_run(trigger, key, said):
    trigger.rules = (UploadRule("in/", TABLE, source={"format": said}),)
    assert trigger(event(key=key))["outcome"] == STARTED
    assert trigger.inputs()[0]["source"]["format"] == said


def test_export_manifest_starts_run_when_rule_names_other_format(trigger):
    trigger.rules = (UploadRule("in/", TABLE, source={"format": "json"}),)
    assert trigger(event(key="in/manifest-files.json"))["outcome"] == STARTED


def test_rule_cannot_change_bucket_and_key(trigger):
    trigger.rules = (UploadRule("in/", TABLE, source={"bucket": "evil", "key": "x"}),)
    trigger(event())
    assert (trigger.inputs()[0]["source"]["bucket"], trigger.inputs()[0]["source"]["key"]) == (
        BUCKET,
        KEY,
    )


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


def test_failed_start_is_raised_so_that_event_is_redelivered(trigger):
    trigger.stepfunctions.failures = [client_error("InternalError", "x", 500)] * 9
    with pytest.raises(ServiceUnavailable):
        trigger(event())
    trigger.stepfunctions.failures = []
    assert trigger(event())["outcome"] == STARTED


def test_null_version_is_passed_to_payload():
    assert Upload.of(event(**{"version-id": "null"})).version_id == "null"
