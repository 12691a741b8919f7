"""Patch states: errors that may be caught, retries, the context object, data size limits.

Source: the Step Functions Developer Guide, "Handling errors" and "Quotas".
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import moto.stepfunctions.parser.asl.component.common.retry.retrier_decl as retrier_module
import moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service as service_module
import moto.stepfunctions.parser.asl.component.state.state as state_module
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import (
    ErrorEqualsDecl,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.state_task import StateTask
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.utils.encoding import to_json_str
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

from localaws.patches.failures import DATA_LIMIT_EXCEEDED, RUNTIME, TIMEOUT, failure
from localaws.patches.monkeypatch import original, replace

DATA_BYTES = 262_144
_HEARTBEAT_TIMEOUT = "States.HeartbeatTimeout"


def apply(retry_seconds: float) -> None:
    """Match errors and measure data like AWS. Limit waits before retries to `retry_seconds`."""
    replace(ErrorEqualsDecl, "_eval_body", _match)
    replace(state_module, "is_within_size_quota", within_quota)
    replace(service_module, "is_within_size_quota", within_quota)
    _patch_parameters()
    _patch_context()
    _limit_waits(retry_seconds)


def _limit_waits(seconds: float) -> None:
    """Shorten the waits of Retry, which are designed for AWS's quotas."""
    waits = SimpleNamespace(sleep=lambda wait: time.sleep(min(wait, seconds)))
    replace(retrier_module, "time", waits)


def _patch_context() -> None:
    """Add `RedriveCount` to the context object, which moto lacks. Always 0."""
    make = original(ExecutionWorker, "_get_evaluation_environment")

    def environment(self: ExecutionWorker) -> Environment:
        made: Environment = make(self)
        context: Any = made.states.context_object.context_object_data
        context["Execution"]["RedriveCount"] = 0
        return made

    replace(ExecutionWorker, "_get_evaluation_environment", environment)


def within_quota(value: Any) -> bool:
    """Return whether a value has at most 256 KiB as UTF-8 JSON."""
    text = value if isinstance(value, str) else to_json_str(value, separators=(",", ":"))
    return len(text.encode()) <= DATA_BYTES


def _match(self: ErrorEqualsDecl, env: Environment) -> None:
    error = env.stack.pop().error_name
    env.stack.append(matches(error, [name.error_name for name in self.error_names]))


def matches(error: str | None, wanted: list[str | None]) -> bool:
    """Return whether a Retry or Catch for `wanted` applies to the error.

    States.Runtime always fails the execution. States.DataLimitExceeded is caught only by its name.
    States.TaskFailed covers everything except timeouts.
    """
    if error == RUNTIME:
        return False
    if error in wanted:
        return True
    if error == DATA_LIMIT_EXCEEDED:
        return False
    if error == _HEARTBEAT_TIMEOUT and TIMEOUT in wanted:
        return True
    if "States.TaskFailed" in wanted and error not in (TIMEOUT, _HEARTBEAT_TIMEOUT):
        return True
    return "States.ALL" in wanted


def _patch_parameters() -> None:
    evaluate = original(StateTask, "_eval_parameters")

    def eval_parameters(self: StateTask, env: Environment) -> dict[str, Any]:
        parameters: dict[str, Any] = evaluate(self, env)
        if not within_quota(parameters):
            raise failure(
                env,
                DATA_LIMIT_EXCEEDED,
                f"The state/task '{self.name}' was given an input with a size exceeding the "
                "maximum number of bytes service limit.",
            )
        return parameters

    replace(StateTask, "_eval_parameters", eval_parameters)
