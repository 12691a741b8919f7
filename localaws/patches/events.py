"""Patch EventBridge: deliver events to functions, state machines, queues or dead-letter queues."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from fnmatch import fnmatchcase
from typing import Any

from moto.awslambda.models import LambdaFunction
from moto.awslambda.utils import get_backend as lambda_backend
from moto.events.models import Rule
from moto.events.utils import EventTemplateParser
from moto.sqs.models import Queue, sqs_backends
from moto.stepfunctions.parser.asl.utils.json_path import extract_json
from moto.stepfunctions.responses import get_backend as states_backend

from localaws.call_observers import check_json_call
from localaws.functions.invoker import Invoker
from localaws.patches.functions import read_async_settings, to_function
from localaws.patches.monkeypatch import original, replace
from localaws.patches.queues import permits

_LOG = logging.getLogger(__name__)


class NotDelivered(Exception):
    """Raised for a target that did not accept an event. `code`: code for the dead letter."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def apply(invoker: Invoker) -> None:
    """Deliver matching events to functions, state machines and queues."""

    def send_to_targets(self: Rule, original_event: Any, transform_input: bool = True) -> None:
        if self.state != "ENABLED" or not self.event_pattern.matches_event(original_event):
            return
        for target in self.targets:
            # The call that caused the event does not wait for its targets, as on AWS.
            threading.Thread(
                target=_deliver,
                args=(self, target, original_event, transform_input, invoker),
                name="event",
                daemon=True,
            ).start()

    def update(
        cls: type[Rule],
        original_resource: Rule,
        new_resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
    ) -> Rule:
        # A generated name stays across updates, because permissions refer to it.
        unnamed = "Name" not in cloudformation_json["Properties"]
        name = original_resource.name if unnamed else new_resource_name
        updated: Rule = change(
            cls, original_resource, name, cloudformation_json, account_id, region_name
        )
        return updated

    change = original(Rule, "update_from_cloudformation_json")
    replace(Rule, "update_from_cloudformation_json", update)
    replace(Rule, "send_to_targets", send_to_targets)


def _service(arn: str) -> str:
    return arn.split(":")[2]


def _deliver(rule: Rule, target: Any, event: Any, transform: bool, invoker: Invoker) -> None:
    body = _target_input(target, event) if transform else event
    text = json.dumps(body)
    try:
        match _service(target["Arn"]):
            case "lambda":
                _invoke_function(rule, target["Arn"], text, invoker)
            case "states":
                _start_execution(rule, target, text)
            case _:
                _send_message(rule, target["Arn"], text, target.get("SqsParameters") or {})
    except NotDelivered as error:
        _LOG.warning("rule %s: could not deliver to %s: %s", rule.name, target["Arn"], error)
        _dead_letter(rule, target, event, error)
    except Exception:  # noqa: BLE001 - the thread ends here
        _LOG.exception("rule %s: could not deliver to %s", rule.name, target["Arn"])


def _target_input(target: Any, event: Any) -> Any:
    """Build the target's input: the whole event, a constant, a part, or a filled template."""
    if "Input" in target:
        return json.loads(target["Input"])
    if "InputPath" in target:
        return extract_json(target["InputPath"], event)
    if "InputTransformer" in target:
        transformer = target["InputTransformer"]
        return EventTemplateParser.parse(
            input_template=transformer.get("InputTemplate"),
            input_paths_map=transformer.get("InputPathsMap", {}),
            event=event,
        )
    return event


def _invoke_function(rule: Rule, arn: str, text: str, invoker: Invoker) -> None:
    region = arn.split(":")[3]
    try:
        function = lambda_backend(rule.account_id, region).get_function(arn)
    except Exception as error:
        raise NotDelivered("RESOURCE_NOT_FOUND", f"the function {arn} does not exist") from error
    if not _permits(function, rule.arn):
        raise NotDelivered(
            "NO_PERMISSIONS", f"{arn} does not permit events.amazonaws.com for {rule.arn}"
        )
    invoker.queue(to_function(function), text.encode(), read_async_settings(function))


def _permits(function: LambdaFunction, rule_arn: str) -> bool:
    """Return whether the function's resource policy (AWS::Lambda::Permission) allows the rule."""
    for statement in function.policy.statements:
        principal = statement.get("Principal")
        service = principal.get("Service") if isinstance(principal, dict) else principal
        if service not in ("events.amazonaws.com", "*") or statement["Effect"] != "Allow":
            continue
        condition = statement.get("Condition") or {}
        sources = [arn for kind in condition.values() for arn in _source_arns(kind)]
        if not sources or any(fnmatchcase(rule_arn, source) for source in sources):
            return True
    return False


def _source_arns(condition: dict[str, Any]) -> list[str]:
    found = {name.lower(): value for name, value in condition.items()}.get("aws:sourcearn", [])
    return [found] if isinstance(found, str) else list(found)


def _start_execution(rule: Rule, target: Any, text: str) -> None:
    arn = target["Arn"]
    region = arn.split(":")[3]
    role = target.get("RoleArn") or rule.role_arn
    if not role:
        raise NotDelivered("NO_PERMISSIONS", f"the target {arn} needs a role to be started with")
    operation = "AWSStepFunctions.StartExecution"
    refused = check_json_call(
        role, "states", region, operation, {"stateMachineArn": arn, "input": text}
    )
    if refused is not None:
        raise NotDelivered("NO_PERMISSIONS", refused)
    try:
        states_backend(rule.account_id, region).start_execution(arn, str(uuid.uuid4()), text)
    except Exception as error:
        raise NotDelivered("SDK_CLIENT_ERROR", str(error)) from error


def _send_message(rule: Rule, arn: str, text: str, parameters: dict[str, Any]) -> None:
    region, name = arn.split(":")[3], arn.rsplit(":", maxsplit=1)[-1]
    if not permits(_queue(arn), rule.arn):
        raise NotDelivered(
            "NO_PERMISSIONS", f"{arn} does not permit events.amazonaws.com for {rule.arn}"
        )
    try:
        sqs_backends[rule.account_id][region].send_message(
            queue_name=name, message_body=text, group_id=parameters.get("MessageGroupId")
        )
    except Exception as error:
        raise NotDelivered("SDK_CLIENT_ERROR", str(error)) from error


def _queue(arn: str) -> Queue:
    *_, region, account, name = arn.split(":")
    try:
        return sqs_backends[account][region].get_queue(name)
    except Exception as error:
        raise NotDelivered("RESOURCE_NOT_FOUND", f"the queue {arn} does not exist") from error


def _dead_letter(rule: Rule, target: Any, event: Any, error: NotDelivered) -> None:
    queue = (target.get("DeadLetterConfig") or {}).get("Arn")
    if not queue:
        return
    attributes = {
        "RULE_ARN": rule.arn,
        "TARGET_ARN": target["Arn"],
        "ERROR_CODE": error.code,
        "ERROR_MESSAGE": str(error),
    }
    region, name = queue.split(":")[3], queue.split(":")[-1]
    sqs_backends[rule.account_id][region].send_message(
        queue_name=name,
        message_body=json.dumps(event),
        message_attributes={
            key: {"DataType": "String", "StringValue": value} for key, value in attributes.items()
        },
    )
