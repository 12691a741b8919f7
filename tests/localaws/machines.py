"""State machines for the tests, in the Amazon States Language."""

SELECTOR = {
    "wish": "fail one",
    "bad.$": "$.bad",
    "item.$": "$$.Map.Item.Value",
    "parent.$": "$$.Execution.Name",
}


def invoke(function="Answer", payload="$", **rest):
    """A Task that invokes a function and goes on with its answer."""
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
    """A machine that starts at the first of these states."""
    return {"StartAt": next(iter(states)), "States": states}


def failing(function="Answer", payload=None, **rest):
    """A Task that fails, and a Pass that shows what was caught."""
    catch = {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Caught"}
    return machine(
        Work=invoke(function, payload or {"wish": "raise"}, **{"Catch": [catch], **rest}),
        Caught={"Type": "Pass", "End": True},
    )


def distributed(item_states, **rest):
    """A distributed Map over `$.items`."""
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
