"""Evaluate a role's identity-based policies with moto's IAMPolicy.

moto treats a policy's patterns as regular expressions: `run.json` also matches `run_json`, `?`
makes the letter before it optional, and `s3:getobject` differs from `s3:GetObject`. It reads a
statement with NotResource as an Allow of everything, even if its effect is Deny. Patterns are
therefore translated here into regular expressions that mean the same as in IAM. A statement that
would still be evaluated wrongly is refused by name.

Not evaluated: resource policies (of buckets, keys, queues), trust policies, permission
boundaries and service control policies. Conditions are limited to CONDITIONS, and to StringEquals
and StringLike of Allow statements: a key that a request does not supply is not met, as on AWS.
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
    # The emulator serves plain HTTP, but the same calls use TLS on AWS.
    ("Bool", "aws:SecureTransport", "true"): True,
    ("Bool", "aws:SecureTransport", "false"): False,
}
"""Supported conditions as (operator, key, value), and whether each one holds."""

_DYNAMIC = {"StringEquals", "StringLike"}
"""Operators that compare a value of the request."""
_Conditions = Mapping[str, Mapping[str, str | Sequence[str]]]

_VERSIONS = {"2008-10-17", "2012-10-17"}
_ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "Condition"}


class UnsupportedPolicy(Exception):
    """Raised for a policy that cannot be evaluated here. The message names policy and feature."""


class Verdict(Enum):
    ALLOWED = "allowed"
    DENIED = "denied by a statement"
    NOT_ALLOWED = "allowed by no statement"


class Policies:
    """Identity-based policies of one role.

    `documents`: policy documents by name, as JSON text or as objects. Error messages use the names.
    Raises UnsupportedPolicy for a policy that would be evaluated wrongly.
    """

    def __init__(self, documents: Mapping[str, str | Mapping[str, Any]]) -> None:
        self._policies = [
            (conditions, IAMPolicy(json.dumps(_translate_document(part, name))))
            for name, document in documents.items()
            for conditions, part in _split_by_conditions(document, name)
        ]

    def judge(self, call: Call) -> Verdict:
        """Evaluate all policies; one Deny overrides every Allow."""
        # IAM compares actions case-insensitively and resources exactly.
        results = {
            policy.is_action_permitted(call.action.lower(), call.resource)
            for conditions, policy in self._policies
            if _are_met(conditions, call.context)
        }
        if PermissionResult.DENIED in results:
            return Verdict.DENIED
        if PermissionResult.PERMITTED in results:
            return Verdict.ALLOWED
        return Verdict.NOT_ALLOWED

    def allow(self, call: Call) -> bool:
        return self.judge(call) is Verdict.ALLOWED


def policy_documents(role: str) -> dict[str, str]:
    """Read a role's inline and attached policies from moto, as JSON texts by name.

    `role`: an ARN. A missing role has no policies, so it may do nothing. Raises UnsupportedPolicy
    for a role with a permission boundary.
    """
    _, partition, _, _, account, _ = role.split(":", 5)
    try:
        found = iam_backends[account][partition].get_role_by_arn(role)
    except NotFoundException:
        return {}
    if found.permissions_boundary_arn:
        raise UnsupportedPolicy(f"{role}: permission boundaries are not supported")
    inline = {f"{found.name}/{name}": document for name, document in found.policies.items()}
    attached = {
        policy.arn: next(v.document for v in policy.versions if v.is_default)
        for policy in found.managed_policies.values()
    }
    return inline | attached


def _split_by_conditions(
    document: str | Mapping[str, Any], name: str
) -> list[tuple[_Conditions, Mapping[str, Any]]]:
    """Move each statement with conditions on the request into a separate policy."""
    policy = json.loads(document) if isinstance(document, str) else document
    if not isinstance(policy, Mapping):
        raise UnsupportedPolicy(f"{name}: not a policy document")
    given = policy.get("Statement", [])
    plain, parts = [], []
    for statement in [given] if isinstance(given, Mapping) else given:
        conditions = statement.get("Condition", {})
        dynamic = {name: conditions[name] for name in conditions if name in _DYNAMIC}
        if not dynamic:
            plain.append(statement)
            continue
        if statement.get("Effect") != "Allow":
            raise UnsupportedPolicy(f"{name}: {', '.join(dynamic)} in a statement that denies")
        rest = {name: conditions[name] for name in conditions if name not in _DYNAMIC}
        parts.append((dynamic, {**policy, "Statement": [{**statement, "Condition": rest}]}))
    return [({}, {**policy, "Statement": plain}), *parts]


def _are_met(conditions: _Conditions, context: Mapping[str, str]) -> bool:
    """Compare conditions with a request: all keys must match, each by any one of its values."""
    values = {name.lower(): value for name, value in context.items()}
    for operator, keys in conditions.items():
        for key, wanted in keys.items():
            value = values.get(key.lower())
            patterns = [wanted] if isinstance(wanted, str) else wanted
            if value is None or not any(_matches(operator, pattern, value) for pattern in patterns):
                return False
    return True


def _matches(operator: str, pattern: str, value: str) -> bool:
    if operator == "StringEquals":
        return pattern == value
    return re.fullmatch(_to_moto_pattern(pattern, operator), value) is not None


def _translate_document(document: str | Mapping[str, Any], name: str) -> dict[str, Any]:
    policy = json.loads(document) if isinstance(document, str) else document
    if not isinstance(policy, Mapping) or not policy.keys() <= {"Version", "Id", "Statement"}:
        raise UnsupportedPolicy(f"{name}: not a policy document")
    if policy.get("Version", "2008-10-17") not in _VERSIONS:
        raise UnsupportedPolicy(f"{name}: unknown Version {policy['Version']!r}")
    statements = policy.get("Statement", [])
    statements = [statements] if isinstance(statements, Mapping) else statements
    translated = [
        _translate_statement(statement, f"{name}, statement {statement.get('Sid', place)}")
        for place, statement in enumerate(statements, start=1)
        if _conditions_hold(statement, f"{name}, statement {statement.get('Sid', place)}")
    ]
    return {"Version": "2012-10-17", "Statement": translated}


def _conditions_hold(statement: Mapping[str, Any], name: str) -> bool:
    """Evaluate a statement's conditions.

    One matching value is enough for a key; all operators and keys must hold.
    """
    holds = True
    for operator, keys in statement.get("Condition", {}).items():
        for key, values in keys.items():
            known = [
                CONDITIONS.get((operator, key, value))
                for value in _string_list(values, f"{name}: Condition")
            ]
            if None in known:
                raise UnsupportedPolicy(f"{name}: unsupported condition: {operator} {key} {values}")
            holds = holds and any(known)
    return holds


def _translate_statement(statement: Mapping[str, Any], name: str) -> dict[str, Any]:
    unknown = sorted(statement.keys() - _ELEMENTS)
    if unknown:
        raise UnsupportedPolicy(f"{name}: unsupported element: {', '.join(unknown)}")
    if statement.get("Effect") not in {"Allow", "Deny"}:
        raise UnsupportedPolicy(f"{name}: Effect is {statement.get('Effect')!r}, not Allow or Deny")
    named = [element for element in ("Action", "NotAction") if element in statement]
    if len(named) != 1:
        raise UnsupportedPolicy(f"{name}: exactly one of Action and NotAction is required")
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
        raise UnsupportedPolicy(f"{name} is {value!r}, not a string or a list of strings")
    return texts


def _action_pattern(pattern: str, name: str) -> str:
    if pattern != "*" and pattern.count(":") != 1:
        raise UnsupportedPolicy(f"{name}: {pattern!r} is not an action")
    return _to_moto_pattern(pattern.lower(), name)


def _resource_pattern(pattern: str, name: str) -> str:
    if pattern == "*":
        return _to_moto_pattern(pattern, name)
    parts = pattern.split(":", 5)
    if len(parts) != 6 or parts[0] != "arn":
        raise UnsupportedPolicy(f"{name}: {pattern!r} is not an ARN")
    # By the IAM User Guide ("Using wildcards in resource ARNs"), the meaning of a wildcard before
    # the ARN's last part depends on its position: it may or may not match colons.
    if any("*" in part for part in parts[:5]):
        raise UnsupportedPolicy(f"{name}: {pattern!r}: a * is supported in the last part only")
    return _to_moto_pattern(pattern, name)


def _to_moto_pattern(pattern: str, name: str) -> str:
    """Translate a pattern for moto, which replaces `*` by `.*` and adds `^` and `$`."""
    if "${" in pattern:
        raise UnsupportedPolicy(f"{name}: {pattern!r}: policy variables are not supported")
    pieces = {"*": ".{0,}", "?": "."}
    expression = "".join(pieces.get(letter) or re.escape(letter) for letter in pattern)
    # A key may contain line ends, at which `.` and `$` would stop.
    return rf"(?s:{expression})\Z"
