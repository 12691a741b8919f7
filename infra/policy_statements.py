"""Statements of the roles' policies, and their sizes.

CDK keeps a role's inline policy below 10,000 characters and moves each statement that does not
fit into a managed policy, which it fills up to 6,000: below IAM's limits of 10,240 and 6,144. But
CDK never splits a statement, and counts 153 characters for each ARN that is only known at
deployment, whatever its length. So statements are split here, at 36 ARNs. These count as 5,600
characters, and a managed policy holds 39. Their real size is smaller, since the names of all
tables and buckets fit into a function's environment of 4 KB.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from ddbload.contracts.upload_rule import SourceBucket

from .errors import TooManySettings
from .settings import Settings

ARNS_OF_A_STATEMENT = 36
ARN_CHARACTERS = 153
"""Length that CDK counts for an ARN that is only known at deployment."""
MANAGED_POLICY_CHARACTERS = 6000
"""Most characters that CDK puts into a managed policy."""
_FIXED_CHARACTERS = 200
"""Upper bound for a statement without resources and conditions."""
READ_OBJECTS = ("s3:GetObject", "s3:GetObjectVersion")
"""A run reads one version of its object throughout."""
LIST_BUCKET = ("s3:ListBucket",)
MANAGED_POLICIES = 10
"""IAM's limit for the managed policies of a role. An account may have a higher one."""


Conditions = Mapping[str, Mapping[str, Any]]
"""Values by operator and key."""


class Statement(NamedTuple):
    """Statement that depends on the settings."""

    sid: str
    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Conditions


def allow(
    role: iam.Role | iam.Policy,
    sid: str,
    actions: Sequence[str],
    resources: Iterable[str],
    conditions: Conditions | None = None,
) -> None:
    """Allow a role the actions on the resources, in statements that each fit into a policy.

    Without resources there is no statement: IAM refuses an empty list.
    """
    for number, named in enumerate(_split(list(resources)), start=1):
        statement = iam.PolicyStatement(
            sid=sid if number == 1 else f"{sid}{number}",
            actions=list(actions),
            resources=named,
            conditions=conditions,
        )
        if isinstance(role, iam.Policy):
            role.add_statements(statement)
        else:
            role.add_to_policy(statement)


def bucket_arn(name: str) -> str:
    """Return the ARN of a bucket."""
    return f"arn:{Aws.PARTITION}:s3:::{name}"


def use_keys(
    role: iam.Role, sid: str, keys: Sequence[str], actions: Sequence[str], *services: str
) -> None:
    """Allow a role to use KMS keys through services of AWS, such as `s3.*`."""
    hosts = [f"{service}.{Aws.URL_SUFFIX}" for service in services]
    allow(role, sid, actions, keys, {"StringLike": {"kms:ViaService": hosts}})


def limited_source_statements(sources: Iterable[SourceBucket]) -> list[Statement]:
    """Make the statements for sources of which only a prefix, or one owner's bucket, may be read.

    `ListBucket` is limited by a condition that GetObject does not meet. So S3 answers 403, and not
    404, for a missing object below such a prefix.
    """
    by_owner: dict[str, list[SourceBucket]] = {}
    for each in sources:
        if each.owner is not None or each.prefix:
            by_owner.setdefault(each.owner or "", []).append(each)
    statements: list[Statement] = []
    for owner, of_owner in sorted(by_owner.items()):
        ownership: Conditions = {"StringEquals": {"s3:ResourceAccount": owner}} if owner else {}
        arns = [f"{bucket_arn(each.bucket)}/{each.prefix}*" for each in of_owner]
        statements.append(Statement(f"ReadLimited{owner}", READ_OBJECTS, arns, ownership))
        if whole := [bucket_arn(each.bucket) for each in of_owner if not each.prefix]:
            statements.append(Statement(f"ListLimited{owner}", LIST_BUCKET, whole, ownership))
        prefixes: dict[str, list[str]] = {}
        for each in of_owner:
            if each.prefix:
                prefixes.setdefault(each.bucket, []).append(f"{each.prefix}*")
        for number, (bucket, below) in enumerate(prefixes.items(), start=1):
            conditions = {**ownership, "StringLike": {"s3:prefix": below}}
            sid = f"ListBelow{owner}n{number}"
            statements.append(Statement(sid, LIST_BUCKET, [bucket_arn(bucket)], conditions))
    return statements


def objects(bucket: s3.IBucket, *keys: str) -> list[str]:
    """Return the ARNs of a bucket's objects; `*` in a key matches anything, slashes included."""
    return [bucket.arn_for_objects(key) for key in keys]


def check_policy_sizes(settings: Settings) -> None:
    """Raise `TooManySettings` if the role of preflight would need more policies.

    The others need no more: each has at most as many tables, objects and buckets. Preflight's
    inline policy may have no room but for the statements that are always there.
    """
    sources = settings.source_buckets
    others = sum(1 for each in sources if each.owner is None and not each.prefix)
    # Tables, objects of the inbox and the other buckets, and these buckets with the work bucket.
    arns = (len(settings.tables), others + 1, others + 2)
    named = [Statement("", (), [""] * each, {}) for each in arns]
    policies = _policies_for([*named, *limited_source_statements(sources)])
    if policies > MANAGED_POLICIES:
        raise TooManySettings(
            f"the role of preflight would have up to {policies} managed policies, and"
            f" AWS allows {MANAGED_POLICIES}: name fewer tables or source_buckets, or make a"
            " second pipeline (another stack_name) for some of them"
        )


def _policies_for(statements: Iterable[Statement]) -> int:
    """Count the managed policies for statements, each put into the first that has room."""
    room: list[int] = []
    for each in statements:
        for resources in _split(each.resources):
            size = _FIXED_CHARACTERS + len(json.dumps(each.conditions)) + sum(map(_size, resources))
            place = next((place for place, free in enumerate(room) if size <= free), None)
            if place is None:
                room.append(MANAGED_POLICY_CHARACTERS)
                place = len(room) - 1
            room[place] -= size
    return len(room)


def _size(resource: str) -> int:
    """Return the characters of an ARN: what CDK counts, or its length if that is more."""
    return max(ARN_CHARACTERS, len(resource))


def _split(resources: Sequence[str]) -> list[Sequence[str]]:
    """Split resources into statements that fit into a managed policy."""
    parts: list[list[str]] = []
    free = 0
    for each in resources:
        if _size(each) > free:
            parts.append([])
            free = ARNS_OF_A_STATEMENT * ARN_CHARACTERS
        parts[-1].append(each)
        free -= _size(each)
    return list(parts)
