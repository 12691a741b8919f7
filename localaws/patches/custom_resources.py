"""Patch CloudFormation's custom resources: a function creates each one and reports the result.

Source: the CloudFormation User Guide, "Custom resource reference". Only creation is emulated; the
function is not called when its resource changes or is deleted.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from contextlib import suppress
from queue import Empty, Queue
from typing import Any

from moto.awslambda.utils import get_backend
from moto.cloudformation.custom_model import CustomModel
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import Stack, cloudformation_backends
from moto.cloudformation.responses import CloudFormationResponse

from localaws.patches.monkeypatch import replace

# AWS waits for an hour, which is too long for a local run.
_RESPONSE_SECONDS = 300.0
_Responses = defaultdict[str, "Queue[dict[str, Any]]"]
"""Responses of functions, by request id."""


def apply(endpoint: str) -> None:
    """Patch the creation of custom resources. `endpoint`: base URL for the functions' responses."""
    responses: _Responses = defaultdict(Queue)

    def create_from_template(
        cls: type[CustomModel],
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **rest: Any,
    ) -> CustomModel:
        # CloudFormation turns all properties of a custom resource into strings.
        properties = _stringify(cloudformation_json["Properties"])
        stack_id, logical_id = rest["StackId"], rest["LogicalId"]
        request = str(uuid.uuid4())
        model = cls(region_name, request, logical_id, resource_name)
        cloudformation_backends[account_id][region_name].get_stack(stack_id).add_custom_resource(
            model
        )
        event = {
            "RequestType": "Create",
            "ServiceToken": properties["ServiceToken"],
            "ResponseURL": f"{endpoint}/cloudformation_{region_name}/cfnresponse?stack={stack_id}",
            "StackId": stack_id,
            "RequestId": request,
            "LogicalResourceId": logical_id,
            "ResourceType": rest["ResourceType"],
            "ResourceProperties": properties,
        }
        answer = _invoke_and_wait(responses, account_id, region_name, event)
        if answer.get("Status") != "SUCCESS":
            raise ValidationError(message=str(answer.get("Reason")))
        model.resource_name = answer.get("PhysicalResourceId") or resource_name
        model.set_data(answer.get("Data") or {})
        return model

    def process_cfn_response(self: CloudFormationResponse) -> tuple[int, dict[str, int], str]:
        body = json.loads(self.body)
        responses[body["RequestId"]].put(body)
        return 200, {"status": 200}, "{}"

    def verify_readiness(self: Stack) -> None:
        """Return at once: a created resource is ready."""

    replace(CustomModel, "create_from_cloudformation_json", create_from_template)
    replace(CloudFormationResponse, "process_cfn_response", process_cfn_response)
    replace(Stack, "verify_readiness", verify_readiness)


def _invoke_and_wait(
    responses: _Responses, account_id: str, region_name: str, event: dict[str, Any]
) -> dict[str, Any]:
    function = get_backend(account_id, region_name).get_function(event["ServiceToken"])
    headers: dict[str, str] = {}
    payload: Any = function.invoke(json.dumps(event), {}, headers)
    failed = "x-amz-function-error" in headers
    # The response arrives before the function ends, or later from another sender.
    with suppress(Empty):
        seconds = 0 if failed else _RESPONSE_SECONDS
        return responses[event["RequestId"]].get(block=not failed, timeout=seconds)
    reason = bytes(payload).decode() if failed else "the function did not send a response"
    return {"Status": "FAILED", "Reason": reason}


def _stringify(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict):
        return {name: _stringify(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_stringify(item) for item in value]
    return value
