"""Whether a role's policies allow an action on a resource, judged by moto's IAMPolicy.

moto takes a policy's patterns for regular expressions: to it `run.json` also means `run_json`, `?`
makes the letter before it optional, and `s3:getobject` is another action than `s3:GetObject`.
It takes a statement with NotResource as an Allow of everything, also where it says Deny. So
patterns are translated here into what moto reads as IAM means them, and a statement with
anything that would still be judged wrongly is refused by name.

Not judged at all: resource policies (of buckets, keys, queues), trust policies, permission
boundaries, service control policies. Conditions hold, or do not, only as CONDITIONS says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends

from localaws.iam.requests import Call

CONDITIONS: Mapping[tuple[str, str, str], bool] = {
    # Nothing is encrypted on its way here; on AWS everything is.
    ("Bool", "aws:SecureTransport", "true"): True,
    ("Bool", "aws:SecureTransport", "false"): False,
}
"""Every condition that is taken for granted: (operator, key, value), and whether it holds."""

_VERSIONS = {"2008-10-17", "2012-10-17"}
_ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "Condition"}


class UnsupportedPolicy(Exception):
    """A policy that would be judged wrongly here. The message names the policy and the feature."""


class Verdict(Enum):
    ALLOWED = "allowed"
    DENIED = "denied by a statement"
    NOT_ALLOWED = "allowed by no statement"


class Policies:
    """The identity-based policies of one role.

    `documents`: by any name that a message can give, as JSON text or as an object.
    Raises UnsupportedPolicy for what would be judged wrongly.
    """

    def __init__(self, documents: Mapping[str, str | Mapping[str, Any]]) -> None:
        self._policies = [
            IAMPolicy(json.dumps(_translate_document(document, name)))
            for name, document in documents.items()
        ]

    def judge(self, call: Call) -> Verdict:
        """One Deny outweighs every Allow."""
        # IAM compares actions without regard to case, resources exactly.
        results = {
            policy.is_action_permitted(call.action.lower(), call.resource)
            for policy in self._policies
        }
        if PermissionResult.DENIED in results:
            return Verdict.DENIED
        if PermissionResult.PERMITTED in results:
            return Verdict.ALLOWED
        return Verdict.NOT_ALLOWED

    def allow(self, call: Call) -> bool:
        return self.judge(call) is Verdict.ALLOWED


def policy_documents(role: str) -> dict[str, str]:
    """Inline and attached policies by name, as JSON text. `role`: an ARN.

    Without any for a role that does not exist, which so may do nothing.
    Raises UnsupportedPolicy where something narrows them that is not judged here.
    """
    _, partition, _, _, account, _ = role.split(":", 5)
    try:
        found = iam_backends[account][partition].get_role_by_arn(role)
    except NotFoundException:
        return {}
    if found.permissions_boundary_arn:
        raise UnsupportedPolicy(f"{role}: permission boundaries are not judged here")
    inline = {f"{found.name}/{name}": document for name, document in found.policies.items()}
    attached = {
        policy.arn: next(v.document for v in policy.versions if v.is_default)
        for policy in found.managed_policies.values()
    }
    return inline | attached


def _translate_document(document: str | Mapping[str, Any], name: str) -> dict[str, Any]:
    policy = json.loads(document) if isinstance(document, str) else document
    if not isinstance(policy, Mapping) or not policy.keys() <= {"Version", "Id", "Statement"}:
        raise UnsupportedPolicy(f"{name}: this is no policy document")
    if policy.get("Version", "2008-10-17") not in _VERSIONS:
        raise UnsupportedPolicy(f"{name}: Version {policy['Version']!r}")
    statements = policy.get("Statement", [])
    statements = [statements] if isinstance(statements, Mapping) else statements
    translated = [
        _translate_statement(statement, f"{name}, statement {statement.get('Sid', place)}")
        for place, statement in enumerate(statements, start=1)
        if _conditions_hold(statement, f"{name}, statement {statement.get('Sid', place)}")
    ]
    return {"Version": "2012-10-17", "Statement": translated}


def _conditions_hold(statement: Mapping[str, Any], name: str) -> bool:
    """Of a key's values one is enough; of operators and keys all are needed."""
    holds = True
    for operator, keys in statement.get("Condition", {}).items():
        for key, values in keys.items():
            known = [
                CONDITIONS.get((operator, key, value))
                for value in _string_list(values, f"{name}: Condition")
            ]
            if None in known:
                raise UnsupportedPolicy(
                    f"{name}: conditions are not evaluated here: {operator} {key} {values}"
                )
            holds = holds and any(known)
    return holds


def _translate_statement(statement: Mapping[str, Any], name: str) -> dict[str, Any]:
    unknown = sorted(statement.keys() - _ELEMENTS)
    if unknown:
        raise UnsupportedPolicy(f"{name}: {', '.join(unknown)} would be judged wrongly here")
    if statement.get("Effect") not in {"Allow", "Deny"}:
        raise UnsupportedPolicy(f"{name}: Effect {statement.get('Effect')!r}")
    named = [element for element in ("Action", "NotAction") if element in statement]
    if len(named) != 1:
        raise UnsupportedPolicy(f"{name}: it needs either Action or NotAction")
    if "Resource" not in statement:
        raise UnsupportedPolicy(f"{name}: Resource is missing")
    element = named[0]
    actions = _string_list(statement[element], f"{name}: {element}")
    resources = _string_list(statement["Resource"], f"{name}: Resource")
    return {
        "Effect": statement["Effect"],
        element: [_action_pattern(action, name) for action in actions],
        "Resource": [_resource_pattern(resource, name) for resource in resources],
    }


def _string_list(value: Any, name: str) -> Sequence[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise UnsupportedPolicy(f"{name} is {value!r}, not a text or a list of texts")
    return texts


def _action_pattern(pattern: str, name: str) -> str:
    if pattern != "*" and pattern.count(":") != 1:
        raise UnsupportedPolicy(f"{name}: {pattern!r} is no action")
    return _to_moto_pattern(pattern.lower(), name)


def _resource_pattern(pattern: str, name: str) -> str:
    if pattern == "*":
        return _to_moto_pattern(pattern, name)
    parts = pattern.split(":", 5)
    if len(parts) != 6 or parts[0] != "arn":
        raise UnsupportedPolicy(f"{name}: {pattern!r} is no ARN")
    # A wildcard before the resource's own part may by the IAM User Guide ("Using wildcards in
    # resource ARNs") reach beyond a colon or not, depending on where it stands.
    if any("*" in part for part in parts[:5]):
        raise UnsupportedPolicy(f"{name}: {pattern!r}: only the last part may hold a *")
    return _to_moto_pattern(pattern, name)


def _to_moto_pattern(pattern: str, name: str) -> str:
    """The pattern as moto reads it: it turns `*` into `.*` itself, and adds `^` and `$`."""
    if "${" in pattern:
        raise UnsupportedPolicy(f"{name}: {pattern!r} holds a policy variable")
    pieces = {"*": ".{0,}", "?": "."}
    expression = "".join(pieces.get(letter) or re.escape(letter) for letter in pattern)
    # A key may hold line ends, at which `.` and `$` would stop.
    return rf"(?s:{expression})\Z"
