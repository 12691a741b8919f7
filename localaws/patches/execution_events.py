"""Send EventBridge events for finished executions of Step Functions."""

from __future__ import annotations

import json
from typing import Any

from moto.events.models import events_backends

_SENT = "_localaws_status_sent"


def send_status_event(execution: Any) -> None:
    """Put the event of a finished execution on the default bus, once.

    It has the form of "Step Functions event examples" in the Step Functions Developer Guide. The
    caller does not wait for the event's targets.
    """
    if getattr(execution, _SENT, False):
        return
    setattr(execution, _SENT, True)
    detail: dict[str, Any] = {
        "executionArn": execution.exec_arn,
        "stateMachineArn": execution.state_machine_arn,
        "name": execution.name,
        "status": execution.exec_status.value,
        "startDate": _milliseconds(execution.start_date),
        "stopDate": _milliseconds(execution.stop_date),
        "input": execution.execution_input,
        "output": None if execution.output is None else json.dumps(execution.output),
        "inputDetails": {"included": True},
        "outputDetails": None,
        "error": execution.error,
        "cause": execution.cause,
        "redriveCount": 0,
    }
    events_backends[execution.account_id][execution.region_name].put_events(
        [
            {
                "Source": "aws.states",
                "DetailType": "Step Functions Execution Status Change",
                "Resources": [execution.exec_arn],
                "Detail": json.dumps(detail),
            }
        ]
    )


def _milliseconds(date: Any) -> int | None:
    return None if date is None else int(date.timestamp() * 1000)
