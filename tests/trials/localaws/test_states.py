"""State machines see errors by AWS's names, and limit the data of a state."""

import json

from tests.trials.localaws.conftest import wait_for
from tests.trials.localaws.machines import failing, invoke, machine

KIB_256 = 262_144


def caught(app, definition, given=None):
    output = json.loads(app.run(definition, given, expect="SUCCEEDED")["output"])
    return output["error"]


def test_machine_runs_choices_loops_and_tasks(app):
    definition = machine(
        Begin={
            "Type": "Pass",
            "Parameters": {"n.$": "$$.Execution.RedriveCount", "name.$": "$$.Execution.Name"},
            "Next": "Add",
        },
        Add={
            "Type": "Pass",
            "Parameters": {"n.$": "States.MathAdd($.n, 1)", "name.$": "$.name"},
            "Next": "Enough?",
        },
        **{
            "Enough?": {
                "Type": "Choice",
                "Choices": [{"Variable": "$.n", "NumericLessThan": 3, "Next": "Add"}],
                "Default": "Work",
            }
        },
        Work=invoke(),
    )
    ended = app.run(definition, expect="SUCCEEDED")
    answer = json.loads(ended["output"])
    assert answer["event"] == {"n": 3, "name": ended["name"]}


def test_function_error_has_its_type_and_a_json_cause(app):
    error = caught(app, failing())
    assert error["Error"] == "NoSuchColour"
    cause = json.loads(error["Cause"])
    assert (cause["errorType"], cause["errorMessage"]) == ("NoSuchColour", "mauve")


def test_function_timeout_is_sandbox_timedout(app):
    error = caught(app, failing("Hurried", {"wish": "sleep", "seconds": 30}))
    assert error["Error"] == "Sandbox.Timedout"
    assert json.loads(error["Cause"])["errorMessage"].endswith("timed out after 1.00 seconds")


def test_memory_failure_is_lambda_unknown(app):
    error = caught(app, failing("Small", {"wish": "memory", "megabytes": 400}))
    assert error["Error"] == "Lambda.Unknown"
    assert "Lambda did not return an error type" in error["Cause"]
    assert "signal: killed" in error["Cause"]


def test_task_timeout_is_states_timeout(app):
    wish = {"wish": "sleep", "seconds": 3}
    error = caught(app, failing(payload=wish, TimeoutSeconds=1))
    assert error["Error"] == "States.Timeout"


def test_retry_uses_jitter_and_skips_errors_with_zero_attempts(app):
    retry = [
        {"ErrorEquals": ["Permanent"], "MaxAttempts": 0},
        {
            "ErrorEquals": ["States.ALL"],
            "IntervalSeconds": 1,
            "MaxAttempts": 2,
            "BackoffRate": 1.0,
            "MaxDelaySeconds": 2,
            "JitterStrategy": "FULL",
        },
    ]
    once = {"wish": "lose", "name": "retried", "bucket": app.outputs["Kept"]}
    ended = app.run(machine(Work=invoke(payload=once, Retry=retry)), expect="SUCCEEDED")
    assert json.loads(ended["output"])["event"] == once
    never = {"wish": "lose", "name": "permanent", "bucket": app.outputs["Kept"]}
    retry[0]["ErrorEquals"] = ["NoSuchColour"]
    ended = app.run(machine(Work=invoke(payload=never, Retry=retry)), expect="FAILED")
    assert ended["error"] == "NoSuchColour"


def test_fail_state_reads_error_and_cause_from_paths(app):
    definition = machine(
        Stop={"Type": "Fail", "ErrorPath": "$.error.name", "CausePath": "$.error.message"}
    )
    given = {"error": {"name": "TooManyRejects", "message": "1,001 rows"}}
    ended = app.run(definition, given, expect="FAILED")
    assert (ended["error"], ended["cause"]) == ("TooManyRejects", "1,001 rows")


def test_missing_path_fails_the_execution_despite_catch(app):
    definition = failing(payload="$.nowhere")
    ended = app.run(definition, expect="FAILED")
    assert ended["error"] == "States.Runtime"


def test_response_over_256_kib_fails_the_execution_despite_catch(app):
    large = {"wish": "large", "bytes": KIB_256}
    ended = app.run(failing(payload=large), expect="FAILED")
    assert ended["error"] == "States.DataLimitExceeded"


def test_state_data_is_limited_to_256_kib(app):
    def double(size):
        return machine(
            Grow={"Type": "Pass", "Parameters": {"a.$": "$.a", "b": "y" * size}, "End": True}
        )

    half = "x" * (KIB_256 // 2)
    rest = KIB_256 - len(json.dumps({"a": half, "b": ""}, separators=(",", ":")))
    ended = app.run(double(rest), {"a": half}, expect="SUCCEEDED")
    assert len(json.dumps(json.loads(ended["output"]), separators=(",", ":"))) == KIB_256
    ended = app.run(double(rest + 1), {"a": half}, expect="FAILED")
    assert ended["error"] == "States.DataLimitExceeded"


def test_stopped_execution_is_aborted_at_once(app):
    states = app.client("stepfunctions")
    definition = machine(Wait={"Type": "Wait", "Seconds": 300, "Next": "Work"}, Work=invoke())
    text = json.dumps(definition).replace("${Answer}", app.outputs["Answer"])
    made = states.create_state_machine(
        name="stopped", definition=text, roleArn=app.outputs["MachineRole"]
    )
    execution = states.start_execution(stateMachineArn=made["stateMachineArn"])["executionArn"]
    wait_for(lambda: len(states.get_execution_history(executionArn=execution)["events"]) > 1)
    states.stop_execution(executionArn=execution, error="Cancelled", cause="by somebody")
    ended = states.describe_execution(executionArn=execution)
    assert ended["status"] == "ABORTED"
    assert ended["stopDate"] >= ended["startDate"]
    assert (ended["error"], ended["cause"]) == ("Cancelled", "by somebody")
    # It has ended: nothing changes.
    states.stop_execution(executionArn=execution, error="Other", cause="by another")
    assert states.describe_execution(executionArn=execution)["error"] == "Cancelled"
