"""Patch Step Functions' API: execute state machines, deploy them from templates, stop them."""

from __future__ import annotations

import functools
import json
import re
import sys
import uuid
from contextvars import ContextVar
from typing import Any

import moto.core.config
from moto.core.exceptions import AWSError
from moto.core.utils import utcnow
from moto.s3.models import s3_backends
from moto.stepfunctions.exceptions import InvalidExecutionInput, ValidationException
from moto.stepfunctions.models import StateMachine
from moto.stepfunctions.parser import utils
from moto.stepfunctions.parser.api import ExecutionStatus, InvalidDefinition
from moto.stepfunctions.parser.asl.utils import boto_client, json_path
from moto.stepfunctions.parser.backend.execution import (
    BaseExecutionWorkerCommunication,
    Execution,
)
from moto.stepfunctions.parser.models import StepFunctionsParserBackend
from moto.stepfunctions.responses import StepFunctionResponse, get_backend

from localaws.patches.clients import client_for_role
from localaws.patches.execution_events import send_status_event
from localaws.patches.monkeypatch import original, replace
from localaws.settings import ACCOUNT, PARTITION

INPUT_BYTES = 262_144
_NAME_LENGTH = 80
_CACHED_PATHS = 1000
_STOP_REASON: ContextVar[tuple[Any, Any]] = ContextVar("stop reason", default=(None, None))
"""Error and cause of the StopExecution request that the thread handles; moto drops them."""
_NOT_IN_NAMES = re.compile(r"[\s<>{}\[\]?*\"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]")


def apply(endpoint: str) -> None:
    """Patch state machines and executions. `endpoint`: base URL of the services that they call."""
    moto.core.config.default_user_config["stepfunctions"]["execute_state_machine"] = True
    _patch_templates()
    _patch_executions()
    _patch_status_events()
    _patch_clients(endpoint)
    _patch_threads()
    _patch_json_paths()


def _patch_templates() -> None:
    def create(
        cls: type[StateMachine],
        resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
        **rest: Any,
    ) -> StateMachine:
        del cls, rest
        properties = cloudformation_json["Properties"]
        return get_backend(account_id, region_name).create_state_machine(
            properties.get("StateMachineName", resource_name),
            _definition(properties),
            properties.get("RoleArn", ""),
            tags=[{"key": t["Key"], "value": t["Value"]} for t in properties.get("Tags", [])],
            sm_type=properties.get("StateMachineType"),
        )

    def update(
        cls: type[StateMachine],
        original_resource: Any,
        new_resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
    ) -> StateMachine:
        properties = cloudformation_json["Properties"]
        backend = get_backend(account_id, region_name)
        if properties.get("StateMachineName", original_resource.name) != original_resource.name:
            made = create(cls, new_resource_name, cloudformation_json, account_id, region_name)
            backend.delete_state_machine(original_resource.arn)
            return made
        return backend.update_state_machine(
            original_resource.arn,
            definition=_definition(properties),
            role_arn=properties.get("RoleArn"),
        )

    def delete(
        cls: type[StateMachine],
        resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
    ) -> None:
        del cls, cloudformation_json
        get_backend(account_id, region_name).delete_state_machine(resource_name)

    replace(StateMachine, "create_from_cloudformation_json", create)
    replace(StateMachine, "update_from_cloudformation_json", update)
    replace(StateMachine, "delete_from_cloudformation_json", delete)


def _definition(properties: dict[str, Any]) -> str:
    """Read the definition from one of three possible properties, and fill in substitutions."""
    location = properties.get("DefinitionS3Location")
    if location:
        stored: Any = s3_backends[ACCOUNT][PARTITION].get_object(
            location["Bucket"], location["Key"], version_id=location.get("Version")
        )
        definition = str(stored.value, "utf-8")
    elif "Definition" in properties:
        definition = json.dumps(properties["Definition"])
    else:
        definition = properties.get("DefinitionString", "")
    for name, value in (properties.get("DefinitionSubstitutions") or {}).items():
        definition = definition.replace("${" + name + "}", str(value))
    return definition


def _patch_executions() -> None:
    start = original(StepFunctionsParserBackend, "start_execution")
    stop = original(StateMachine, "stop_execution")
    answer_stop = original(StepFunctionResponse, "stop_execution")
    validate = original(StepFunctionsParserBackend, "_validate_definition")

    def start_execution(
        self: StepFunctionsParserBackend,
        state_machine_arn: str,
        name: Any = None,
        execution_input: Any = None,
        trace_header: Any = None,
    ) -> Execution:
        if len((execution_input or "").encode()) > INPUT_BYTES:
            raise ValidationException(
                "1 validation error detected: Value at 'input' failed to satisfy constraint: "
                f"Member must have length less than or equal to {INPUT_BYTES}"
            )
        named = name or str(uuid.uuid4())
        if len(named) > _NAME_LENGTH or _NOT_IN_NAMES.search(named):
            raise AWSError(f"Invalid Name: '{named}'", "InvalidName")
        try:
            json.loads(execution_input or "{}")
        except ValueError as error:
            # moto's error lacks the code that clients check.
            raise InvalidExecutionInput(
                f"Invalid State Machine Execution Input: {error}"
            ) from error
        started: Execution = start(self, state_machine_arn, named, execution_input, trace_header)
        return started

    def stop_execution(self: StateMachine, execution_arn: str) -> Any:
        execution = stop(self, execution_arn)
        # AWS stops an execution at once, even while its functions still run.
        if execution.exec_status == ExecutionStatus.RUNNING:
            execution.exec_status = ExecutionStatus.ABORTED
            execution.stop_date = utcnow()
            execution.error, execution.cause = _STOP_REASON.get()
        return execution

    def answer_stop_execution(self: StepFunctionResponse) -> Any:
        token = _STOP_REASON.set((self._get_param("error"), self._get_param("cause")))
        try:
            return answer_stop(self)
        finally:
            _STOP_REASON.reset(token)

    def validate_definition(definition: str) -> None:
        try:
            validate(definition=definition)
        except InvalidDefinition as error:
            # moto's error lacks the code that clients check.
            raise AWSError(str(error.message), "InvalidDefinition") from error

    replace(StepFunctionsParserBackend, "_validate_definition", validate_definition)
    replace(StepFunctionsParserBackend, "start_execution", start_execution)
    replace(StateMachine, "stop_execution", stop_execution)
    replace(StepFunctionResponse, "stop_execution", answer_stop_execution)


def _patch_status_events() -> None:
    """Put an event on the bus when an execution ends: AWS's "Execution Status Change".

    moto sends none. A stopped execution ends at once, before its worker thread does.
    """
    stop = StateMachine.stop_execution
    terminated = original(BaseExecutionWorkerCommunication, "terminated")

    def stop_execution(self: StateMachine, execution_arn: str) -> Any:
        execution = stop(self, execution_arn)
        send_status_event(execution)
        return execution

    def on_terminated(self: BaseExecutionWorkerCommunication) -> None:
        terminated(self)
        send_status_event(self.execution)

    replace(StateMachine, "stop_execution", stop_execution)
    replace(BaseExecutionWorkerCommunication, "terminated", on_terminated)


def _patch_clients(endpoint: str) -> None:
    moto_client_for = original(boto_client, "boto_client_for")

    def boto_client_for(region: str, service: str, state_credentials: Any = None) -> Any:
        role = getattr(state_credentials, "role_arn", None) or ""
        return client_for_role(service, region, role, endpoint)

    _replace_in_interpreter("boto_client_for", moto_client_for, boto_client_for)


def _patch_threads() -> None:
    """Stop moto from keeping every thread that ever ran, which are three per task."""

    class Forgetful(list[Any]):
        def append(self, thread: Any) -> None:
            del thread

    _replace_in_interpreter("TMP_THREADS", original(utils, "TMP_THREADS"), Forgetful())


def _patch_json_paths() -> None:
    """Cache parsed JSONPaths: moto builds a grammar for each, a sixth of a state's cost.

    A parsed path has no state, so threads may share it.
    """
    parse = json_path.parse  # type: ignore[attr-defined]
    json_path.parse = functools.lru_cache(_CACHED_PATHS)(parse)  # type: ignore[attr-defined]


def _replace_in_interpreter(name: str, old: Any, new: Any) -> None:
    """Replace the name in every module of the interpreter that imported it."""
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("moto.stepfunctions") and getattr(module, name, None) is old:
            replace(module, name, new)
