"""Build state machines for the tests, in the Amazon States Language."""

SELECTOR = {
    "wish": "fail one",
    "bad.$": "$.bad",
    "item.$": "$$.Map.Item.Value",
    "parent.$": "$$.Execution.Name",
}


def invoke(function="Answer", payload="$", **rest):
    """Build a Task that invokes a function and continues with its result."""
    given = {"Payload.$": payload} if isinstance(payload, str) else {"Payload": payload}
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": "${" + function + "}", **given},
        "OutputPath": "$.Payload",
        **({} if "Next" in rest else {"End": True}),
        **rest,
    }


def machine(**states):
    """Build a machine that starts at the first of these states."""
    return {"StartAt": next(iter(states)), "States": states}


def failing(function="Answer", payload=None, **rest):
    """Build a machine with a failing Task, and a Pass that shows the caught error."""
    catch = {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Caught"}
    return machine(
        Work=invoke(function, payload or {"wish": "raise"}, **{"Catch": [catch], **rest}),
        Caught={"Type": "Pass", "End": True},
    )


def distributed(item_states, **rest):
    """Build a distributed Map over `$.items`."""
    return {
        "Type": "Map",
        "ItemsPath": "$.items",
        "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            **item_states,
        },
        **({} if "Next" in rest else {"End": True}),
        **rest,
    }
