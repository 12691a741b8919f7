"""Statements of the roles' policies, and their sizes.

CDK keeps a role's inline policy below 10,000 characters and moves each statement that does not
fit into a managed policy, which it fills up to 6,000: below IAM's limits of 10,240 and 6,144. But
CDK never splits a statement, and counts 153 characters for each ARN that is only known at
deployment, whatever its length. So statements are split here, at 36 ARNs. These count as 5,600
characters, and a managed policy holds 39. Their real size is smaller, since the names of all
tables and buckets fit into a function's environment of 4 KB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from infra.errors import TooManySettings
from infra.settings import Settings

ARNS_OF_A_STATEMENT = 36
MANAGED_POLICIES = 10
"""IAM's limit for the managed policies of a role. An account may have a higher one."""


def allow(
    role: iam.Role | iam.Policy, sid: str, actions: Sequence[str], resources: Iterable[str]
) -> None:
    """Allow a role the actions on the resources, in statements that each fit into a policy.

    Without resources there is no statement: IAM refuses an empty list.
    """
    for number, named in enumerate(_split(list(resources)), start=1):
        statement = iam.PolicyStatement(
            sid=sid if number == 1 else f"{sid}{number}", actions=list(actions), resources=named
        )
        if isinstance(role, iam.Policy):
            role.add_statements(statement)
        else:
            role.add_to_policy(statement)


def table_arn(name: str) -> str:
    """Return the ARN of a table in the deployment's account and region."""
    return f"arn:{Aws.PARTITION}:dynamodb:{Aws.REGION}:{Aws.ACCOUNT_ID}:table/{name}"


def bucket_arn(name: str) -> str:
    """Return the ARN of a bucket."""
    return f"arn:{Aws.PARTITION}:s3:::{name}"


def objects(bucket: s3.IBucket, *keys: str) -> list[str]:
    """Return the ARNs of a bucket's objects; `*` in a key matches anything, slashes included."""
    return [bucket.arn_for_objects(key) for key in keys]


def check_policy_sizes(settings: Settings) -> None:
    """Raise `TooManySettings` if the roles of preflight and import_chunk would need more policies.

    The inline policy holds the statements that are always there and the first that depends on
    the settings; each of the others needs at most one managed policy.
    """
    others = len(settings.source_buckets)
    # Tables, objects of the inbox and the other buckets, and these buckets with the work bucket.
    arns = (len(settings.tables), others + 1, others + 2)
    statements = sum(len(_split(range(each))) for each in arns)
    if statements > MANAGED_POLICIES + 1:
        raise TooManySettings(
            f"the role of import_chunk would have up to {statements - 1} managed policies, and"
            f" AWS allows {MANAGED_POLICIES}: name fewer tables or source_buckets, or deploy a"
            " second stack (stack_name) for some of them"
        )


def _split(resources: Sequence[Any]) -> list[Sequence[Any]]:
    return [
        resources[begin : begin + ARNS_OF_A_STATEMENT]
        for begin in range(0, len(resources), ARNS_OF_A_STATEMENT)
    ]
