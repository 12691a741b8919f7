"""The state machine's definition is valid for AWS and matches the design."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ddbload.contracts import results
from infra import ROOT
from tests.asl.definition import CHILD, MACHINE, TEXT, states, successors, tasks
from tests.infra.template import Template

VALIDATOR = ROOT / "node_modules" / ".bin" / "asl-validator"
FUNCTIONS = {
    "Preflight": ("${PreflightFunctionArn}", "FunctionsPreflightFunction"),
    "ImportChunk": ("${ImportChunkFunctionArn}", "FunctionsImportChunkFunction"),
    "LeaveWord": ("${ImportChunkFunctionArn}", "FunctionsImportChunkFunction"),
    "Report": ("${ReportFunctionArn}", "FunctionsReportFunction"),
}
LIMIT_CHARACTERS = 1_048_576
"""Step Functions' limit on the size of a definition."""


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_definition_passes_asl_validator(tmp_path: Path, partition: str):
    deployed = tmp_path / "deployed.json"
    deployed.write_text(TEXT.replace("${Partition}", partition), "utf-8")
    done = subprocess.run(
        [str(VALIDATOR), "--json-path", str(deployed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_definition_has_only_known_substitutions():
    assert sorted(set(re.findall(r"\$\{[^}]*\}", TEXT))) == [
        "${ImportChunkFunctionArn}",
        "${Partition}",
        "${PreflightFunctionArn}",
        "${ReportFunctionArn}",
        "${WorkBucketName}",
    ]
    assert len(TEXT) < LIMIT_CHARACTERS


def test_stack_deploys_the_definition_unchanged(template: Template):
    machine = template.resources["WorkflowStateMachine"]["Properties"]
    assert machine["DefinitionString"] == TEXT
    given = {f"${{{name}}}" for name in machine["DefinitionSubstitutions"]}
    assert given == set(re.findall(r"\$\{[^}]*\}", TEXT))


@pytest.mark.parametrize("machine", [MACHINE, CHILD], ids=["machine", "child"])
def test_every_state_is_reachable_and_leads_to_an_end(machine: dict[str, Any]):
    found = {machine["StartAt"]}
    while more := {each for name in found for each in successors(machine["States"][name])} - found:
        found |= more
    assert found == set(machine["States"])
    ends = {
        name
        for name, state in machine["States"].items()
        if state.get("End") or state["Type"] in ("Succeed", "Fail")
    }
    assert ends
    for name, state in machine["States"].items():
        assert bool(successors(state)) != (name in ends)
    while before := {
        name
        for name, state in machine["States"].items()
        if name not in ends and successors(state) & ends
    }:
        ends |= before
    assert ends == set(machine["States"])


def test_task_passes_the_whole_state_and_returns_the_payload():
    found = tasks()
    assert set(found) == set(FUNCTIONS)
    for name, task in found.items():
        assert task["Resource"] == "arn:${Partition}:states:::lambda:invoke"
        payload: dict[str, Any] = {"Payload.$": "$"}
        if name in ("Preflight", "Report"):
            # "Accessing execution data from the Context object in Step Functions": Execution has
            # "RedriveCount": Number. A redrive keeps the state, so that no earlier state can tell.
            count = "$$.Execution.RedriveCount"
            payload = {"Payload": {"state.$": "$", "redrives.$": count}}
        assert task["Parameters"] == {"FunctionName": FUNCTIONS[name][0], **payload}
        assert task["OutputPath"] == "$.Payload"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_task_timeout_exceeds_the_functions(template: Template, name: str):
    """A task that ended first would retry beside an invocation that still runs."""
    timeout = template.resources[FUNCTIONS[name][1]]["Properties"]["Timeout"]
    assert tasks()[name]["TimeoutSeconds"] > timeout
    # 900 seconds is the maximum that the setting allows.
    assert tasks()[name]["TimeoutSeconds"] > 900


@pytest.mark.parametrize("name", FUNCTIONS)
def test_task_retries_every_exception(name: str):
    """An error that no retry mends is a result of the function, and no exception."""
    assert tasks()[name]["Retry"][1:] == [
        {
            "ErrorEquals": ["States.ALL"],
            "IntervalSeconds": 2,
            "MaxAttempts": 6,
            "BackoffRate": 2.0,
            "MaxDelaySeconds": 60,
            "JitterStrategy": "FULL",
        }
    ]


def test_result_with_an_error_is_looked_at_first():
    more, chunk = MACHINE["States"]["MorePreflight?"], CHILD["States"]["MoreToImport?"]
    is_given = {"Variable": "$.error", "IsPresent": True}
    # The output of a run that Preflight has finished has an error, too, which is null.
    finished = {"Variable": "$.status", "IsPresent": True, "Next": "Outcome?"}
    assert more["Choices"][:2] == [finished, {**is_given, "Next": "Report"}]
    assert chunk["Choices"][0] == {**is_given, "Next": "ChunkFailed"}


def test_definition_has_under_270_lines():
    assert len(TEXT.splitlines()) < 270


def test_errors_lead_to_the_report():
    for name in ("Preflight", "ImportChunks"):
        assert MACHINE["States"][name]["Catch"] == [
            {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Report"}
        ]
    # A run without a report must not succeed.
    assert "Catch" not in MACHINE["States"]["Report"]


def test_begin_passes_the_whole_input():
    assert MACHINE["States"]["Begin"] == {
        "Type": "Pass",
        "Comment": MACHINE["States"]["Begin"]["Comment"],
        "Parameters": {
            "input.$": "$",
            "run.$": "$$.Execution.Name",
            "execution.$": "$$.Execution.Id",
            "cursor": None,
        },
        "Next": "Preflight",
    }
    assert "$.input" not in TEXT


def test_map_matches_the_design():
    state = dict(MACHINE["States"]["ImportChunks"])
    processor = state.pop("ItemProcessor")
    del state["Comment"], state["Catch"], state["Retry"]
    assert state == {
        "Type": "Map",
        "Label": "ImportChunks",
        "ItemReader": {
            "Resource": "arn:${Partition}:states:::s3:getObject",
            "ReaderConfig": {"InputType": "JSON"},
            "Parameters": {"Bucket": "${WorkBucketName}", "Key.$": "$.manifest"},
        },
        "ItemSelector": {
            "run.$": "$.run",
            "chunks.$": "$$.Map.Item.Value.chunks",
            "stalled": 0,
        },
        "MaxConcurrencyPath": "$.workers",
        "ToleratedFailurePercentage": 100.0,
        "ResultWriter": {
            "Resource": "arn:${Partition}:states:::s3:putObject",
            "Parameters": {"Bucket": "${WorkBucketName}", "Prefix": "mapruns"},
        },
        "ResultPath": None,
        "Next": "Report",
    }
    assert processor["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    assert processor["States"]["Done"]["Result"] == {}


def test_definition_uses_only_emulated_features():
    assert "QueryLanguage" not in TEXT
    assert "ItemBatcher" not in TEXT
    assert "Arguments" not in TEXT
    for _, state in states():
        assert len(state) == len({name.lower() for name in state})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_task_retries_for_hours_when_lambda_throttles(name: str):
    """An import occupies an environment for up to 15 minutes; others wait instead of failing."""
    waiting = tasks()[name]["Retry"][0]
    assert waiting["ErrorEquals"] == [
        # By "Handle transient Lambda service exceptions" of Step Functions' best practices.
        "Lambda.AWSLambdaException",
        "Lambda.ClientExecutionTimeoutException",
        "Lambda.SdkClientException",
        "Lambda.ServiceException",
        "Lambda.TooManyRequestsException",
    ]
    assert waiting["JitterStrategy"] == "FULL"
    # Full jitter waits half of the maximum delay on average. A burst of 100,000 uploads takes 8
    # hours in an account with 10 concurrent functions, and no run is lucky all the time.
    assert waiting["MaxAttempts"] * waiting["MaxDelaySeconds"] / 2 > 4 * 8 * 3600
    # TaskScheduled, TaskStarted and TaskFailed, of the 25,000 events that an execution may have.
    assert 3 * waiting["MaxAttempts"] <= 25_000 / 5
    # Each retry is a state transition, which has a price and a quota for the account.
    assert waiting["MaxDelaySeconds"] >= 300


def test_map_is_tried_again():
    """A second Map Run writes no row again that the first one settled.

    Its children ask the ledger first: segments that exist are adopted, whoever wrote them, and the
    next ones begin where they end. So a Map Run that was refused, could not read the manifest, or
    could not write its results may be repeated.

    The names are those of "Handling errors in Step Functions workflows". Map Runs above the quota
    of 1,000 are not refused: "Backlogged Map Runs wait at the MapRunStarted event until the total
    number of open Map Runs is less than the quota." No error is documented for a Map Run that is
    refused otherwise, so States.ALL waits for more than an hour. What is missing permission would
    fail again, and fails within minutes.
    """
    named, others = MACHINE["States"]["ImportChunks"]["Retry"]
    assert named == {
        "ErrorEquals": [
            "States.ItemReaderFailed",
            "States.Permissions",
            "States.ResultWriterFailed",
        ],
        "IntervalSeconds": 2,
        "MaxAttempts": 6,
        "BackoffRate": 2.0,
        "MaxDelaySeconds": 60,
        "JitterStrategy": "FULL",
    }
    assert others["ErrorEquals"] == ["States.ALL"]
    assert others["JitterStrategy"] == "FULL"
    assert others["MaxAttempts"] * others["MaxDelaySeconds"] / 2 > 3600


def test_failed_chunk_is_recorded_then_fails():
    states_of_child = CHILD["States"]
    caught = {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "LeaveWord"}
    assert states_of_child["ImportChunk"]["Catch"] == [caught]
    assert "Catch" not in states_of_child["LeaveWord"]
    assert states_of_child["LeaveWord"]["Next"] == "ChunkFailed"
    failed = states_of_child["ChunkFailed"]
    assert (failed["ErrorPath"], failed["CausePath"]) == ("$.error.name", "$.error.message")


def test_execution_succeeds_only_by_the_reports_status():
    outcome = MACHINE["States"]["Outcome?"]
    again, choice = outcome["Choices"]
    assert again == {"Variable": "$.report", "IsPresent": True, "Next": "Report"}
    assert choice["Next"] == "Succeeded"
    assert {each["Variable"] for each in choice["Or"]} == {"$.status"}
    assert {each["StringEquals"] for each in choice["Or"]} == results.DONE
    assert outcome["Default"] == "Failed"
    leading = [name for name, state in states() if "Succeeded" in successors(state)]
    assert leading == ["Outcome?"]
