"""CloudFormation: templates from our own S3, and custom resources that answer to us."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

import moto.cloudformation.custom_model as custom_module
import moto.cloudformation.parsing as parsing_module
import moto.cloudformation.responses as responses_module
from moto.cloudformation.custom_model import CustomModel
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import CloudFormationBackend
from moto.core.exceptions import JsonRESTError
from moto.s3.models import s3_backends

from localaws.patches.patching import original, replace
from localaws.settings import HOST


def apply(endpoint: str) -> None:
    """`endpoint`: where custom resources answer, and where a TemplateURL may point."""
    _patch_template_urls(endpoint)
    _patch_custom_resources(endpoint)
    _patch_change_sets()
    _patch_refusals()


def _patch_change_sets() -> None:
    """moto works out a stack's outputs when the change set is made, before there is a resource."""
    execute = original(CloudFormationBackend, "execute_change_set")

    def execute_change_set(
        self: CloudFormationBackend, change_set_name: str, stack_name: str | None = None
    ) -> None:
        execute(self, change_set_name, stack_name=stack_name)
        for stack in self.stacks.values():
            # As an update does it: from the template that was deployed, on what it made.
            stack._parse_template()  # noqa: SLF001 - moto has no public name for it
            stack.output_map = stack._create_output_map()  # noqa: SLF001 - the same

    replace(CloudFormationBackend, "execute_change_set", execute_change_set)


def _patch_template_urls(endpoint: str) -> None:
    fetch = original(responses_module, "get_stack_from_s3_url")
    ours = re.compile(re.escape(endpoint) + r"/(?P<bucket>[^/]+)/(?P<key>[^?]+)")

    def get_stack_from_s3_url(template_url: str, account_id: str, partition: str) -> str:
        found = ours.match(template_url)
        if found is None:
            text: str = fetch(template_url, account_id=account_id, partition=partition)
            return text
        key = urllib.parse.unquote(found["key"])
        template: Any = s3_backends[account_id][partition].get_object(found["bucket"], key)
        return str(template.value, "utf-8")

    replace(responses_module, "get_stack_from_s3_url", get_stack_from_s3_url)


def _patch_custom_resources(endpoint: str) -> None:
    create = original(CustomModel, "create_from_cloudformation_json")
    port = endpoint.rsplit(":", 1)[-1]

    class Here:
        """Where a custom resource's function sends its answer: moto thinks of Docker."""

        @staticmethod
        def moto_server_host() -> str:
            return f"http://{HOST}"

        @staticmethod
        def moto_server_port() -> str:
            return port

    def create_from_template(
        cls: type[CustomModel],
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **rest: Any,
    ) -> CustomModel:
        # CloudFormation hands a custom resource nothing but strings in its properties.
        properties = _strings(cloudformation_json["Properties"])
        template = {**cloudformation_json, "Properties": properties}
        model: CustomModel = create(cls, resource_name, template, account_id, region_name, **rest)
        return model

    replace(custom_module, "settings", Here)
    replace(CustomModel, "create_from_cloudformation_json", create_from_template)


def _patch_refusals() -> None:
    """Tell in CloudFormation's own words what another service refuses of a template."""
    for name in ("parse_and_create_resource", "parse_and_update_resource"):
        replace(parsing_module, name, _with_refusals(original(parsing_module, name)))


def _with_refusals(function: Any) -> Any:
    def call(logical_id: str, *rest: Any, **named: Any) -> Any:
        try:
            return function(logical_id, *rest, **named)
        except JsonRESTError as error:
            raise ValidationError(message=f"{logical_id}: {error.message}") from error

    return call


def _strings(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict):
        return {name: _strings(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_strings(item) for item in value]
    return value
