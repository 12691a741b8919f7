"""Patch Lambda: run functions as processes, and refuse requests that AWS refuses."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from moto.awslambda.exceptions import InvalidParameterValueException, LambdaClientError
from moto.awslambda.models import EventInvokeConfig, LambdaBackend, LambdaFunction, LayerVersion
from moto.awslambda.responses import LambdaResponse
from moto.awslambda.utils import get_backend
from moto.core.common_models import CloudFormationModel

from localaws.functions.environment import environment_error
from localaws.functions.function import Function, Layer
from localaws.functions.invoker import (
    AsyncSettings,
    InvalidRequestContent,
    Invoker,
    RequestTooLarge,
)
from localaws.patches.monkeypatch import original, replace
from localaws.patches.template_resource import TemplateResource


class _PayloadTooLarge(LambdaClientError):
    code = 413


def apply(invoker: Invoker) -> None:
    """Run all invocations through `invoker`."""
    _patch_invocation(invoker)
    _patch_checks()
    _patch_templates()


def to_function(function: LambdaFunction) -> Function:
    """Convert moto's function to the `Function` that the pools use."""
    reserved = function.reserved_concurrency
    return Function(
        arn=function.function_arn,
        name=function.function_name,
        version=str(function.version),
        handler=function.handler or "",
        runtime=function.run_time or "",
        role=function.role,
        region=function.region,
        memory_mb=int(function.memory_size),
        timeout_seconds=float(function.timeout),
        log_group=getattr(function, "localaws_log_group", None) or function.logs_group_name,
        variables=tuple(sorted((k, str(v)) for k, v in function.environment_vars.items())),
        code_hash=function.code_sha_256,
        code=function.code_bytes,
        reserved=None if reserved is None else int(reserved),
        layers=tuple(_layers(function)),
    )


def _layers(function: LambdaFunction) -> Iterator[Layer]:
    backend = get_backend(function.account_id, function.region)
    for each in function.layers:
        version = backend.layers_versions_by_arn(each["Arn"])
        # As on AWS, a deleted layer is kept for the functions that use it.
        if version is not None:
            yield Layer(each["Arn"], version.code_bytes)


def read_async_settings(function: LambdaFunction) -> AsyncSettings:
    """Read a function's dead-letter queue and event invoke configuration."""
    config = function.event_invoke_config[-1].config if function.event_invoke_config else {}
    destinations = config.get("DestinationConfig") or {}
    return AsyncSettings(
        attempts=1 + int(config.get("MaximumRetryAttempts", 2)),
        dead_letter=getattr(function, "localaws_dead_letter", None),
        on_failure=(destinations.get("OnFailure") or {}).get("Destination"),
    )


def _patch_invocation(invoker: Invoker) -> None:
    def invoke(
        self: LambdaFunction, body: Any, request_headers: Any, response_headers: Any
    ) -> bytes:
        payload = body if isinstance(body, bytes) else (body or "").encode()
        function = to_function(self)
        kind = request_headers.get("x-amz-invocation-type", "RequestResponse")
        try:
            if kind == "DryRun":
                return b""
            if kind == "Event":
                invoker.queue(function, payload, read_async_settings(self))
                return b""
            outcome = invoker.invoke(function, payload)
        except RequestTooLarge as error:
            raise _PayloadTooLarge("RequestTooLargeException", str(error)) from error
        except InvalidRequestContent as error:
            raise LambdaClientError("InvalidRequestContentException", str(error)) from error
        if outcome.failed:
            response_headers["x-amz-function-error"] = "Unhandled"
        response_headers["x-amz-executed-version"] = function.version
        response_headers["x-amz-log-result"] = base64.b64encode(outcome.log_tail).decode()
        return outcome.payload

    def respond(self: LambdaResponse) -> tuple[int, dict[str, str], bytes]:
        # moto would check the payload's size again, and convert the response from bytes.
        headers: dict[str, str] = {}
        name = unquote(self.path.rsplit("/", 2)[-2])
        qualifier = self._get_param("qualifier") or self._get_param("Qualifier")
        payload: Any = self.backend.invoke(name, qualifier, self.body, self.headers, headers)
        kind = self.headers.get("X-Amz-Invocation-Type", "RequestResponse")
        if self.headers.get("X-Amz-Log-Type") != "Tail":
            headers.pop("x-amz-log-result", None)
        status = {"Event": 202, "DryRun": 204}.get(kind, 200)
        headers |= {"content-type": "application/json", "status": str(status)}
        return status, headers, bytes(payload or b"")

    replace(LambdaFunction, "invoke", invoke)
    replace(LambdaResponse, "invoke", respond)


def _patch_checks() -> None:
    create = original(LambdaBackend, "create_function")
    update = original(LambdaFunction, "update_configuration")

    def check(spec: dict[str, Any]) -> None:
        variables = (spec.get("Environment") or {}).get("Variables") or {}
        refused = environment_error({name: str(value) for name, value in variables.items()})
        if refused is not None:
            raise InvalidParameterValueException(refused)

    def create_function(self: LambdaBackend, spec: dict[str, Any]) -> LambdaFunction:
        check(spec)
        function: LambdaFunction = create(self, spec)
        _keep_details(function, spec)
        return function

    def update_configuration(self: LambdaFunction, updates: dict[str, Any]) -> dict[str, Any]:
        check(updates)
        answer: dict[str, Any] = update(self, updates)
        _keep_details(self, updates)
        return answer

    replace(LambdaBackend, "create_function", create_function)
    replace(LambdaFunction, "update_configuration", update_configuration)


def _keep_details(function: Any, spec: dict[str, Any]) -> None:
    """Keep properties that moto drops and an invocation needs."""
    if "DeadLetterConfig" in spec:
        function.localaws_dead_letter = (spec["DeadLetterConfig"] or {}).get("TargetArn")
    if "LoggingConfig" in spec:
        function.localaws_log_group = (spec["LoggingConfig"] or {}).get("LogGroup")


def _set_layers(function: LambdaFunction, properties: dict[str, Any]) -> None:
    """Set the layers of a function from a template, which moto ignores."""
    function.layers = function._get_layers_data(properties.get("Layers") or [])  # noqa: SLF001


def _patch_templates() -> None:
    create = original(LambdaFunction, "create_from_cloudformation_json")

    def create_from_template(
        cls: type[LambdaFunction],
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **rest: Any,
    ) -> LambdaFunction:
        properties = cloudformation_json["Properties"]
        function: LambdaFunction = create(
            cls, resource_name, cloudformation_json, account_id, region_name, **rest
        )
        _keep_details(function, properties)
        if "Architectures" in properties:
            function.architectures = properties["Architectures"]
        _set_layers(function, properties)
        return function

    update = original(LambdaFunction, "update_from_cloudformation_json")

    def update_from_template(
        cls: type[LambdaFunction],
        original_resource: LambdaFunction,
        new_resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> LambdaFunction:
        # moto treats changed inline code as a zip archive, so make it one.
        code = cloudformation_json["Properties"]["Code"]
        if "ZipFile" in code:
            archive = LambdaFunction._create_zipfile_from_plaintext_code(code["ZipFile"])  # noqa: SLF001
            code["ZipFile"] = base64.b64encode(archive)
        updated: LambdaFunction = update(
            cls, original_resource, new_resource_name, cloudformation_json, account_id, region_name
        )
        _set_layers(updated, cloudformation_json["Properties"])
        return updated

    replace(LambdaFunction, "create_from_cloudformation_json", create_from_template)
    replace(LambdaFunction, "update_from_cloudformation_json", update_from_template)
    # `Ref` returns the ARN of a layer's version, for which moto has no value.
    setattr(LayerVersion, "physical_resource_id", LayerVersion.arn)  # noqa: B010 - moto lacks it


class _EventInvokeConfigResource(TemplateResource, CloudFormationModel):
    TYPE = "AWS::Lambda::EventInvokeConfig"

    @classmethod
    def attach(cls, properties: dict[str, Any], account: str, region: str) -> None:
        """Replace the function's configuration of asynchronous invocations."""
        function = get_backend(account, region).get_function(properties["FunctionName"])
        for field in ("MaximumRetryAttempts", "MaximumEventAgeInSeconds"):
            if field in properties:
                properties[field] = int(properties[field])
        function.event_invoke_config = [
            EventInvokeConfig(function.function_arn, function.last_modified, properties)
        ]
