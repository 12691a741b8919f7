"""Read the roles of a CloudFormation template, with their policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localaws.iam.requests import Place

# Service, prefix and suffix of the resource's name in its ARN, by resource type.
_ARNS = {
    "AWS::Lambda::Function": ("lambda", "function:", ""),
    "AWS::Logs::LogGroup": ("logs", "log-group:", ":*"),
    "AWS::SQS::Queue": ("sqs", "", ""),
    "AWS::StepFunctions::StateMachine": ("states", "stateMachine:", ""),
}
_PLACEHOLDER = re.compile(r"\$\{(!?)([^}]*)\}")


class UnresolvedTemplate(Exception):
    """Error for a template value that depends on something unknown."""


@dataclass(frozen=True)
class Deployed:
    """Values that a template leaves open until it is deployed.

    `names`: values of Ref by logical id; `attributes`: values of Fn::GetAtt by logical id and
    attribute; `region` and `account`: those of the stack.
    """

    region: str
    account: str
    names: Mapping[str, str]
    attributes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    partition: str = "aws"
    stack: str = ""

    def ref(self, name: str) -> str:
        pseudo = {
            "AWS::AccountId": self.account,
            "AWS::Partition": self.partition,
            "AWS::Region": self.region,
            "AWS::StackName": self.stack,
            "AWS::URLSuffix": "amazonaws.com",
        }
        value = pseudo.get(name) or self.names.get(name)
        if not value:
            raise UnresolvedTemplate(f"Ref {name}")
        return value

    def attribute(self, name: str, attribute: str) -> str:
        value = self.attributes.get((name, attribute))
        if not value:
            raise UnresolvedTemplate(f"Fn::GetAtt {name}.{attribute}")
        return value


def deployed(
    template: Mapping[str, Any], names: Mapping[str, str], place: Place, stack: str = ""
) -> Deployed:
    """Build the values of a template deployed to `place`; `names`: values of Ref by logical id.

    Covers the attributes `Arn` and `Name` of the resource types that policies refer to.
    """
    attributes: dict[tuple[str, str], str] = {}
    for logical, resource in template["Resources"].items():
        if logical not in names:
            continue
        # Ref gives a queue's URL and a state machine's ARN.
        name = re.split("[/:]", names[logical])[-1]
        service, prefix, suffix = _ARNS.get(resource["Type"], ("", "", ""))
        if resource["Type"] == "AWS::S3::Bucket":
            arn = f"arn:{place.partition}:s3:::{name}"
        elif resource["Type"] == "AWS::IAM::Role":
            arn = f"arn:{place.partition}:iam::{place.account}:role/{name}"
        elif service:
            name = name if service != "logs" else names[logical]
            arn = place.arn(service, f"{prefix}{name}{suffix}")
        else:
            continue
        attributes |= {(logical, "Arn"): arn, (logical, "Name"): name}
    return Deployed(place.region, place.account, names, attributes, place.partition, stack)


def resolve(value: Any, deployed: Deployed) -> Any:
    """Replace the intrinsic functions in a template's value.

    Raises UnresolvedTemplate for unsupported functions and unknown names.
    """
    if isinstance(value, list):
        return [resolve(item, deployed) for item in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name == "Ref":
            return deployed.ref(argument)
        if name.startswith("Fn::"):
            return _evaluate_function(name, argument, deployed)
    return {name: resolve(item, deployed) for name, item in value.items()}


def _evaluate_function(name: str, argument: Any, deployed: Deployed) -> Any:
    if name == "Fn::GetAtt":
        logical, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        return deployed.attribute(logical, attribute)
    if name == "Fn::Join":
        separator, items = argument
        return separator.join(resolve(items, deployed))
    if name == "Fn::Split":
        separator, text = argument
        return resolve(text, deployed).split(separator)
    if name == "Fn::Select":
        place, items = argument
        return resolve(items, deployed)[int(place)]
    if name == "Fn::Sub":
        text, values = (argument, {}) if isinstance(argument, str) else argument
        return _substitute(text, resolve(values, deployed), deployed)
    raise UnresolvedTemplate(f"{name} {argument}")


def _substitute(text: str, values: Mapping[str, str], deployed: Deployed) -> str:
    def value(match: re.Match[str]) -> str:
        literal, name = match.groups()
        if literal:
            return f"${{{name}}}"
        if name in values:
            return values[name]
        logical, dot, attribute = name.partition(".")
        return deployed.attribute(logical, attribute) if dot else deployed.ref(name)

    return _PLACEHOLDER.sub(value, text)


def roles_of(template: Mapping[str, Any], deployed: Deployed) -> dict[str, dict[str, Any]]:
    """Return the resolved policy documents of each role, by the role's logical id and policy name.

    Raises UnresolvedTemplate for unknown values, and for policies attached by ARN or to a role
    outside the template.
    """
    resources = template["Resources"]
    roles: dict[str, dict[str, Any]] = {
        logical: {}
        for logical, resource in resources.items()
        if resource["Type"] == "AWS::IAM::Role"
    }
    for logical, documents in roles.items():
        properties = resources[logical].get("Properties", {})
        for name in ("ManagedPolicyArns", "PermissionsBoundary"):
            if properties.get(name):
                raise UnresolvedTemplate(f"{logical}: {name} {properties[name]}")
        for policy in properties.get("Policies", []):
            document = resolve(policy["PolicyDocument"], deployed)
            documents[f"{logical}/{resolve(policy['PolicyName'], deployed)}"] = document
    for logical, resource in resources.items():
        if resource["Type"] in {
            "AWS::IAM::Policy",
            "AWS::IAM::ManagedPolicy",
            "AWS::IAM::RolePolicy",
        }:
            properties = resource["Properties"]
            names = properties.get("Roles", [])
            names = [properties["RoleName"]] if "RoleName" in properties else names
            document = resolve(properties["PolicyDocument"], deployed)
            for name in names:
                role = name.get("Ref") if isinstance(name, Mapping) else None
                if role not in roles:
                    raise UnresolvedTemplate(f"{logical}: the role {name}")
                roles[role][logical] = document
    return roles
