"""Static checks of statemachine/import.asl.json: what AWS would refuse, and what DESIGN says."""

from __future__ import annotations

import inspect
import re
import subprocess
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts import results
from infra.checkout import DEFINITION, ROOT
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
"""Step Functions': a definition's size."""


def test_asl_validator_finds_nothing():
    done = subprocess.run(
        [str(VALIDATOR), "--json-path", str(DEFINITION)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_substitutions_are_these_four_and_stand_where_text_stands():
    assert sorted(set(re.findall(r"\$\{[^}]*\}", TEXT))) == [
        "${ImportChunkFunctionArn}",
        "${PreflightFunctionArn}",
        "${ReportFunctionArn}",
        "${WorkBucketName}",
    ]
    assert len(TEXT) < LIMIT_CHARACTERS


def test_what_is_deployed_is_this_very_text(template: Template):
    machine = template.resources["WorkflowStateMachine"]["Properties"]
    assert machine["DefinitionString"] == TEXT
    given = {f"${{{name}}}" for name in machine["DefinitionSubstitutions"]}
    assert given == set(re.findall(r"\$\{[^}]*\}", TEXT))


@pytest.mark.parametrize("machine", [MACHINE, CHILD], ids=["machine", "child"])
def test_every_state_is_reached_and_every_way_ends(machine: dict[str, Any]):
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


def test_tasks_call_their_functions_with_the_whole_state_and_give_their_answer():
    found = tasks()
    assert set(found) == set(FUNCTIONS)
    for name, task in found.items():
        assert task["Resource"] == "arn:aws:states:::lambda:invoke"
        assert task["Parameters"] == {"FunctionName": FUNCTIONS[name][0], "Payload.$": "$"}
        assert task["OutputPath"] == "$.Payload"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_task_outlasts_its_function(template: Template, name: str):
    """So that no invocation that timed out runs beside its retry."""
    timeout = template.resources[FUNCTIONS[name][1]]["Properties"]["Timeout"]
    assert tasks()[name]["TimeoutSeconds"] > timeout
    # Also with any timeout that the knob may set.
    assert tasks()[name]["TimeoutSeconds"] > 900


def permanent() -> set[str]:
    """The errors that trying again cannot help, by ddbload/errors.py."""
    return {
        name
        for name, error in inspect.getmembers(errors, inspect.isclass)
        if issubclass(error, errors.DdbloadError)
        and error is not errors.DdbloadError
        and error.permanent
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_permanent_errors_are_not_retried_and_all_others_are(name: str):
    first, _, last = tasks()[name]["Retry"]
    assert set(first) == {"ErrorEquals", "MaxAttempts"}
    assert first["MaxAttempts"] == 0
    assert set(first["ErrorEquals"]) == permanent()
    assert first["ErrorEquals"] == sorted(first["ErrorEquals"])
    assert len(permanent()) > 30
    assert last == {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 2,
        "MaxAttempts": 6,
        "BackoffRate": 2.0,
        "MaxDelaySeconds": 60,
        "JitterStrategy": "FULL",
    }


def test_errors_go_to_the_report_and_never_round_it():
    for name in ("Preflight", "ImportChunks"):
        assert MACHINE["States"][name]["Catch"] == [
            {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Report"}
        ]
    # Where there is no report there is no success.
    assert "Catch" not in MACHINE["States"]["Report"]


def test_the_users_input_travels_whole():
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


def test_the_map_is_what_the_design_says():
    state = dict(MACHINE["States"]["ImportChunks"])
    processor = state.pop("ItemProcessor")
    del state["Comment"], state["Catch"]
    assert state == {
        "Type": "Map",
        "Label": "ImportChunks",
        "ItemReader": {
            "Resource": "arn:aws:states:::s3:getObject",
            "ReaderConfig": {"InputType": "JSON"},
            "Parameters": {"Bucket": "${WorkBucketName}", "Key.$": "$.manifest"},
        },
        "ItemSelector": {
            "run.$": "$.run",
            "chunk.$": "$$.Map.Item.Value",
            "cursor": None,
            "stalled": 0,
        },
        "MaxConcurrencyPath": "$.workers",
        "ToleratedFailurePercentage": 100.0,
        "ResultWriter": {
            "Resource": "arn:aws:states:::s3:putObject",
            "Parameters": {"Bucket": "${WorkBucketName}", "Prefix": "mapruns"},
        },
        "ResultPath": None,
        "Next": "Report",
    }
    assert processor["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    assert processor["States"]["Done"]["Result"] == {}


def test_only_what_aws_and_the_emulator_both_run():
    assert "QueryLanguage" not in TEXT
    assert "ItemBatcher" not in TEXT
    assert "Arguments" not in TEXT
    for _, state in states():
        assert len(state) == len({name.lower() for name in state})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_has_no_room_now_is_waited_for(name: str):
    """An import holds its place for up to 15 minutes: others are not to fail for want of one."""
    waiting = tasks()[name]["Retry"][1]
    assert waiting["ErrorEquals"] == [
        "Lambda.AWSLambdaException",
        "Lambda.SdkClientException",
        "Lambda.ServiceException",
        "Lambda.TooManyRequestsException",
    ]
    assert waiting["JitterStrategy"] == "FULL"
    # Half of the longest delay is what full jitter comes to.
    assert waiting["MaxAttempts"] * waiting["MaxDelaySeconds"] / 2 > 4 * 3600


def test_a_chunk_that_failed_leaves_word_and_fails():
    states_of_child = CHILD["States"]
    caught = {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "LeaveWord"}
    assert states_of_child["ImportChunk"]["Catch"] == [caught]
    assert "Catch" not in states_of_child["LeaveWord"]
    assert states_of_child["LeaveWord"]["Next"] == "ChunkFailed"
    failed = states_of_child["ChunkFailed"]
    assert (failed["ErrorPath"], failed["CausePath"]) == ("$.error.name", "$.error.message")


def test_success_is_said_by_the_report_only():
    outcome = MACHINE["States"]["Outcome?"]
    (choice,) = outcome["Choices"]
    assert choice["Next"] == "Succeeded"
    assert {each["Variable"] for each in choice["Or"]} == {"$.status"}
    assert {each["StringEquals"] for each in choice["Or"]} == results.DONE
    assert outcome["Default"] == "Failed"
    leading = [name for name, state in states() if "Succeeded" in successors(state)]
    assert leading == ["Outcome?"]
