"""CloudFormation template with accessors for assertions."""

from __future__ import annotations

import re
from typing import Any

_HASH = re.compile(r"[0-9A-F]{8}$")
_HASHES = re.compile(r"[0-9A-F]{8}")


class Template:
    """A template with its functions written as text, and logical ids without their hashes.

    `{"Fn::GetAtt": ["StorageWorkD07184AE", "Arn"]}` becomes `${StorageWork.Arn}`.
    """

    def __init__(self, template: dict[str, Any]) -> None:
        self.plain: dict[str, Any] = text(template)
        resources = self.plain["Resources"]
        self.resources = {short(name): resource for name, resource in resources.items()}
        assert len(self.resources) == len(resources)

    def of_type(self, kind: str) -> dict[str, Any]:
        """Properties by name."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.resources.items()
            if resource["Type"] == kind
        }

    @property
    def policies(self) -> list[dict[str, Any]]:
        """Roles' policies, those included into which CDK moves what does not fit."""
        kinds = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        return [each for kind in kinds for each in self.of_type(kind).values()]

    def statements(self, role: str) -> dict[str, dict[str, Any]]:
        """What a role may do, by Sid."""
        found = [
            statement
            for policy in self.policies
            if policy["Roles"] == [f"${{{role}}}"]
            for statement in policy["PolicyDocument"]["Statement"]
        ]
        by_sid = {statement.get("Sid", ""): statement for statement in found}
        assert len(by_sid) == len(found)
        return by_sid


def short(name: str) -> str:
    """A logical id without its hash, which says where in the tree it stands."""
    return _HASH.sub("", name)


def text(value: Any) -> Any:
    """The value, with CloudFormation's functions as `${...}`."""
    if isinstance(value, list):
        return [text(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name == "Ref":
            return f"${{{short(argument)}}}"
        if name == "Fn::GetAtt":
            return f"${{{short(argument[0])}.{argument[1]}}}"
        if name == "Fn::Join":
            return argument[0].join(text(part) for part in argument[1])
        if name == "Fn::Select" and "Fn::Split" in argument[1]:
            # A part of an ARN, of which this form keeps the resource.
            return text(argument[1]["Fn::Split"][1])
        if name == "Fn::Sub":
            return argument
        if name == "Fn::ImportValue":
            return f"${{{_HASHES.sub('', argument)}}}"
    return {name: text(each) for name, each in value.items()}


def listed(value: Any) -> list[Any]:
    """IAM writes a list of one without its brackets."""
    return value if isinstance(value, list) else [value]
