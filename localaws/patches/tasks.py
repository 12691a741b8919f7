"""Patch Task states: invoke functions directly, with the errors that AWS reports.

moto would send an HTTP request to itself for each invocation, through a new client each time. That
is most of an invocation's cost.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from botocore.exceptions import ClientError
from moto.awslambda.utils import get_backend
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEvent
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.exec.state_task.lambda_eval_utils import (
    LambdaFunctionErrorException,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_lambda,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment

from localaws.call_observers import check_invocation
from localaws.functions.invoker import InvalidRequestContent, Invoker, RequestTooLarge
from localaws.patches.failures import failure
from localaws.patches.functions import to_function
from localaws.patches.monkeypatch import original, replace
from localaws.settings import ACCOUNT

# Failures of the environment, not of the code, which states receive under this name.
_UNKNOWN = "Lambda.Unknown"
_WITHOUT_TYPE = frozenset({"Runtime.ExitError"})


def apply(invoker: Invoker) -> None:
    """Invoke the functions of Task states through `invoker`."""

    def invoke(parameters: dict[str, Any], region: str, state_credentials: Any) -> dict[str, Any]:
        name = parameters["FunctionName"]
        refused = check_invocation(state_credentials.role_arn, region, name)
        if refused is not None:
            raise _client_error("AWSLambdaException", 403, refused)
        backend = get_backend(ACCOUNT, region)
        try:
            found = backend.get_function(name, parameters.get("Qualifier"))
        except Exception as error:
            raise _client_error(
                "ResourceNotFoundException", 404, f"Function not found: {name}"
            ) from error
        try:
            outcome = invoker.invoke(to_function(found), parameters.get("Payload") or b"{}")
        except RequestTooLarge as error:
            raise _client_error("RequestTooLargeException", 413, str(error)) from error
        except InvalidRequestContent as error:
            raise _client_error("InvalidRequestContentException", 400, str(error)) from error
        answer: dict[str, Any] = {
            "ExecutedVersion": str(found.version),
            "Payload": json.loads(outcome.payload or b"null"),
            "StatusCode": 200,
        }
        if outcome.failed:
            answer["FunctionError"] = "Unhandled"
        return answer

    def exec_lambda_function(
        env: Environment, parameters: dict[str, Any], region: str, account: str, credentials: Any
    ) -> None:
        del account
        answer = invoke(parameters, region, credentials)
        if "FunctionError" in answer:
            raise LambdaFunctionErrorException(
                answer["FunctionError"], json.dumps(answer["Payload"], separators=(",", ":"))
            )
        env.stack.append(answer)

    replace(lambda_eval_utils, "_invoke_lambda_function", invoke)
    replace(lambda_eval_utils, "exec_lambda_function", exec_lambda_function)
    _patch_errors()


def _patch_errors() -> None:
    task = state_task_service_lambda.StateTaskServiceLambda
    others = original(task, "_from_error")

    def from_error(self: Any, env: Environment, ex: Exception) -> FailureEvent:
        if isinstance(ex, LambdaFunctionErrorException):
            payload = json.loads(ex.payload)
            kind = payload.get("errorType") if isinstance(payload, dict) else None
            cause = ex.payload
            if not isinstance(kind, str) or kind in _WITHOUT_TYPE:
                kind = _UNKNOWN
                cause = (
                    "The cause could not be determined because Lambda did not return an error "
                    f"type. Returned payload: {ex.payload}"
                )
            return failure(env, kind, cause, resource="invoke", resourceType="lambda").failure_event
        event: FailureEvent = others(self, env, ex)
        return event

    replace(task, "_from_error", from_error)


def _client_error(code: str, status: int, message: str) -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "RequestId": str(uuid.uuid4()),
                "HTTPHeaders": {},
                "RetryAttempts": 0,
                "HostId": "",
            },
        },
        "Invoke",
    )
