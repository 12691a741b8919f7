"""Patch CloudFormation: templates from the emulated S3, outputs, errors, log groups' ARNs."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import moto.cloudformation.parsing as parsing_module
import moto.cloudformation.responses as responses_module
from moto.cloudformation.exceptions import CloudFormationError, ValidationError
from moto.cloudformation.models import CloudFormationBackend, Stack
from moto.core.exceptions import JsonRESTError
from moto.iam.models import ManagedPolicy, iam_backends
from moto.logs.models import LogGroup
from moto.s3.models import s3_backends

from localaws.patches.monkeypatch import original, replace


class ChangeSetNotFound(CloudFormationError):
    """CloudFormation's error for a missing change set, which `cdk` expects."""

    code = "ChangeSetNotFound"


def apply(endpoint: str) -> None:
    """Patch stacks and change sets. `endpoint`: base URL that a TemplateURL may have."""
    _patch_template_urls(endpoint)
    _patch_change_sets()
    _patch_creations()
    _patch_previous_values()
    _patch_refusals()
    _patch_deletions()
    _patch_log_group_arn()


def _patch_change_sets() -> None:
    """Compute outputs after execution, and report missing change sets as AWS does.

    moto computes a stack's outputs when the change set is created, before any resource exists.
    """
    execute = original(CloudFormationBackend, "execute_change_set")
    describe = original(CloudFormationBackend, "describe_change_set")

    def execute_change_set(
        self: CloudFormationBackend, change_set_name: str, stack_name: str | None = None
    ) -> None:
        change_set = describe(self, change_set_name)
        made = self.stacks[change_set.stack_id]
        with _creation(made) if change_set.change_set_type == "CREATE" else nullcontext():
            execute(self, change_set_name, stack_name=stack_name)
        for stack in self.stacks.values():
            # Like an update: from the deployed template and its resources.
            stack._parse_template()  # noqa: SLF001 - moto has no public name
            stack.output_map = stack._create_output_map()  # noqa: SLF001 - the same

    replace(CloudFormationBackend, "execute_change_set", execute_change_set)

    def describe_change_set(self: CloudFormationBackend, change_set_name: str) -> Any:
        try:
            return describe(self, change_set_name)
        except ValidationError:
            # moto reports a missing stack here.
            raise ChangeSetNotFound(f"ChangeSet [{change_set_name}] does not exist") from None

    replace(CloudFormationBackend, "describe_change_set", describe_change_set)
    delete = original(CloudFormationBackend, "delete_change_set")

    def delete_change_set(self: CloudFormationBackend, change_set_name: str) -> None:
        # AWS ignores the deletion of a missing change set; moto fails.
        named = [each.change_set_name for each in self.change_sets.values()]
        if change_set_name in (*self.change_sets, *named):
            delete(self, change_set_name)

    replace(CloudFormationBackend, "delete_change_set", delete_change_set)


@contextmanager
def _creation(stack: Stack) -> Iterator[None]:
    """Show a stack as being created while it is, and as failed if that fails."""
    stack.status = "CREATE_IN_PROGRESS"
    try:
        yield
    except Exception:
        stack.status = "CREATE_FAILED"
        raise


def _patch_creations() -> None:
    """Have stacks show no outputs while they are created, as on AWS.

    moto would make what an output names a second time, at the same time as the creation.
    """
    create, outputs = original(Stack, "create_resources"), original(Stack, "outputs")

    def create_resources(self: Stack) -> None:
        with _creation(self):
            create(self)

    def outputs_if_made(self: Stack) -> Any:
        is_made = self.status not in ("CREATE_PENDING", "CREATE_IN_PROGRESS", "CREATE_FAILED")
        return outputs.fget(self) if is_made else None

    replace(Stack, "create_resources", create_resources)
    replace(Stack, "outputs", property(outputs_if_made))


def _patch_previous_values() -> None:
    """Keep an SSM parameter's name on UsePreviousValue, instead of its earlier value.

    For a parameter that was never given, use its default; moto fails there.
    """
    resolve = original(CloudFormationBackend, "_resolve_update_parameters")

    def resolve_update_parameters(
        self: CloudFormationBackend, instance: Stack, incoming_params: list[dict[str, Any]]
    ) -> Any:
        known = [
            each
            for each in incoming_params
            if "ParameterValue" in each or each["ParameterKey"] in instance.parameters
        ]
        return resolve(self, instance, known)

    replace(CloudFormationBackend, "_resolve_update_parameters", resolve_update_parameters)

    def stack_parameters(self: Stack) -> dict[str, Any]:
        resources = self.resource_map
        given = dict(resources.resolved_parameters)
        for name, slot in resources._template.get("Parameters", {}).items():  # noqa: SLF001 - moto has no public name
            if slot.get("Type", "").startswith("AWS::SSM::Parameter::"):
                given[name] = resources.input_parameters.get(name, slot.get("Default"))
        return given

    replace(Stack, "stack_parameters", property(stack_parameters))


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


def _patch_refusals() -> None:
    """Report a service's error in a template as CloudFormation's own validation error."""
    for name in ("parse_and_create_resource", "parse_and_update_resource"):
        replace(parsing_module, name, _with_refusals(original(parsing_module, name)))


def _with_refusals(function: Any) -> Any:
    def call(logical_id: str, *rest: Any, **named: Any) -> Any:
        try:
            return function(logical_id, *rest, **named)
        except JsonRESTError as error:
            raise ValidationError(message=f"{logical_id}: {error.message}") from error

    return call


def _patch_deletions() -> None:
    """Keep resources that a template retains; detach managed policies before roles are deleted.

    moto knows only the deletion policy `Retain`. A stack that is deleted was created, so
    `RetainExceptOnCreate` means the same.
    """
    delete = original(parsing_module.ResourceMap, "delete")

    def delete_resources(self: parsing_module.ResourceMap) -> None:
        for resource in self._resource_json_map.values():
            if resource.get("DeletionPolicy") == "RetainExceptOnCreate":
                resource["DeletionPolicy"] = "Retain"
        for policy in self._parsed_resources.values():
            if isinstance(policy, ManagedPolicy):
                backend = iam_backends[policy.account_id][policy.partition]
                for role in list(backend.roles.values()):
                    if policy.arn in role.managed_policies:
                        policy.detach_from(role)
        delete(self)

    replace(parsing_module.ResourceMap, "delete", delete_resources)
    delete_stack = original(CloudFormationBackend, "delete_stack")

    def delete_exporting_stack(self: CloudFormationBackend, name_or_stack_id: str) -> None:
        # moto registers no exports of a stack that a change set made, and fails without them.
        for stack in self.stacks.values():
            for export in stack.exports:
                self.exports.setdefault(export.name, export)
        delete_stack(self, name_or_stack_id)

    replace(CloudFormationBackend, "delete_stack", delete_exporting_stack)


def _patch_log_group_arn() -> None:
    """Add `:*` to a log group's ARN, so that policies with it cover the group's streams.

    Source: the CloudFormation User Guide, "AWS::Logs::LogGroup". moto omits the suffix.
    """
    attribute_of = original(LogGroup, "get_cfn_attribute")

    def get_cfn_attribute(self: LogGroup, attribute_name: str) -> str:
        value: str = attribute_of(self, attribute_name)
        return f"{value}:*" if attribute_name == "Arn" else value

    replace(LogGroup, "get_cfn_attribute", get_cfn_attribute)
