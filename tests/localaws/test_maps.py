"""Distributed Maps run children, tolerate failures, read items and write results."""

import json

import pytest

from tests.localaws.machines import SELECTOR, distributed, invoke, machine

SHOW = machine(
    Show={
        "Type": "Pass",
        "Parameters": {
            "child.$": "$$.Execution.Name",
            "id.$": "$$.Execution.Id",
            "machine.$": "$$.StateMachine.Id",
            "given.$": "$",
        },
        "End": True,
    }
)


def test_map_child_is_a_separate_execution(app):
    mapped = distributed(SHOW, Label="Show", ItemSelector=SELECTOR)
    ended = app.run(machine(Map=mapped), {"items": [1, 2], "bad": None}, expect="SUCCEEDED")
    children = json.loads(ended["output"])
    assert [child["given"]["item"] for child in children] == [1, 2]
    assert {child["given"]["parent"] for child in children} == {ended["name"]}
    names = {child["child"] for child in children}
    assert len(names) == 2
    assert ended["name"] not in names
    own = ended["executionArn"].rsplit(":", 1)[0]
    assert {child["id"] for child in children} == {f"{own}/Show:{name}" for name in names}
    assert {child["machine"] for child in children} == {f"{ended['stateMachineArn']}/Show"}


def run_with(app, bad, **rest):
    work = machine(Work=invoke())
    mapped = distributed(work, ItemSelector=SELECTOR, MaxConcurrency=2, **rest)
    return app.run(machine(Map=mapped), {"items": [1, 2, 3, 4], "bad": bad})


def test_map_tolerates_no_failure_by_default(app):
    ended = run_with(app, 2)
    assert ended["status"] == "FAILED"
    assert ended["error"] == "States.ExceedToleratedFailureThreshold"
    assert run_with(app, 5)["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("tolerance", "status"),
    [
        ({"ToleratedFailureCount": 1}, "SUCCEEDED"),
        ({"ToleratedFailurePercentage": 25.0}, "SUCCEEDED"),
        ({"ToleratedFailurePercentage": 24.9}, "FAILED"),
        ({"ToleratedFailurePercentage": 100.0}, "SUCCEEDED"),
    ],
)
def test_map_tolerates_failures_up_to_the_threshold(app, tolerance, status):
    ended = run_with(app, 2, **tolerance)
    assert ended["status"] == status
    if status == "SUCCEEDED":
        assert [out and out["event"]["item"] for out in json.loads(ended["output"])] == [
            1,
            None,
            3,
            4,
        ]


def test_failed_map_can_be_caught(app):
    catch = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Caught"}]
    definition = machine(
        Map=distributed(machine(Work=invoke()), ItemSelector=SELECTOR, Catch=catch, Next="Never"),
        Never={"Type": "Fail", "Error": "Never"},
        Caught={"Type": "Pass", "OutputPath": "$.error", "End": True},
    )
    ended = app.run(definition, {"items": [1], "bad": 1}, expect="SUCCEEDED")
    assert json.loads(ended["output"])["Error"] == "States.ExceedToleratedFailureThreshold"


def map_with_s3(**rest):
    reader = {
        "Resource": "arn:aws:states:::s3:getObject",
        "ReaderConfig": {"InputType": "JSON"},
        "Parameters": {"Bucket": "${Kept}", "Key.$": "$.manifest"},
    }
    writer = {
        "Resource": "arn:aws:states:::s3:putObject",
        "Parameters": {"Bucket": "${Kept}", "Prefix": "mapruns"},
    }
    mapped = distributed(
        machine(Work=invoke()),
        ItemReader=reader,
        ItemSelector=SELECTOR,
        ResultWriter=writer,
        MaxConcurrencyPath="$.workers",
        ToleratedFailurePercentage=100.0,
        Label="Work",
        **rest,
    )
    del mapped["ItemsPath"]
    return mapped


def test_map_reads_items_from_s3_and_writes_results(app):
    app.put("items.json", json.dumps([1, 2, 3]).encode(), bucket="Kept")
    given = {"manifest": "items.json", "bad": 2, "workers": 2}
    ended = app.run(machine(Map=map_with_s3()), given, expect="SUCCEEDED")
    output = json.loads(ended["output"])
    assert ":mapRun:" in output["MapRunArn"]
    details = output["ResultWriterDetails"]
    assert details["Bucket"] == app.outputs["Kept"]

    def read(key):
        return json.loads(
            app.client("s3").get_object(Bucket=app.outputs["Kept"], Key=key)["Body"].read()
        )

    manifest = read(details["Key"])
    assert manifest["MapRunArn"] == output["MapRunArn"]
    files = manifest["ResultFiles"]
    assert files["PENDING"] == []
    good = read(files["SUCCEEDED"][0]["Key"])
    assert [json.loads(child["Input"])["item"] for child in good] == [1, 3]
    assert [json.loads(child["Output"])["event"]["item"] for child in good] == [1, 3]
    (bad,) = read(files["FAILED"][0]["Key"])
    assert (bad["Status"], bad["Error"]) == ("FAILED", "NoSuchColour")
    run = app.client("stepfunctions").describe_map_run(mapRunArn=output["MapRunArn"])
    assert run["status"] == "SUCCEEDED"
    counts = {k: v for k, v in run["itemCounts"].items() if v}
    assert counts == {"succeeded": 2, "failed": 1, "resultsWritten": 3, "total": 3}


def test_map_result_is_discarded_with_a_null_result_path(app):
    app.put("one.json", b"[1]", bucket="Kept")
    given = {"manifest": "one.json", "bad": None, "workers": 1}
    ended = app.run(machine(Map=map_with_s3(ResultPath=None)), given, expect="SUCCEEDED")
    assert json.loads(ended["output"]) == given


def test_missing_manifest_fails_with_item_reader_failed(app):
    given = {"manifest": "nothing.json", "bad": None, "workers": 1}
    ended = app.run(machine(Map=map_with_s3()), given, expect="FAILED")
    assert ended["error"] == "States.ItemReaderFailed"


def test_map_result_over_256_kib_fails_the_execution_even_if_discarded(app):
    large = machine(Large={"Type": "Pass", "Parameters": {"x": "x" * 100_000}, "End": True})
    definition = machine(Map=distributed(large, ResultPath=None))
    assert app.run(definition, {"items": [1, 2]})["status"] == "SUCCEEDED"
    ended = app.run(definition, {"items": [1, 2, 3]}, expect="FAILED")
    assert ended["error"] == "States.DataLimitExceeded"


def test_map_runs_more_items_than_the_recursion_limit(app):
    """The number of items exceeds Python's recursion limit."""
    nothing = machine(Nothing={"Type": "Pass", "Result": 0, "End": True})
    definition = machine(Map=distributed(nothing, MaxConcurrency=1))
    ended = app.run(definition, {"items": list(range(1100))}, expect="SUCCEEDED")
    assert json.loads(ended["output"]) == [0] * 1100
