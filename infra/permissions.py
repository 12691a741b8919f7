"""Statements of the roles' policies, and names of what they allow access to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from infra.policies import pieces


def allow(
    role: iam.Role | iam.Policy, sid: str, actions: Sequence[str], resources: Iterable[str]
) -> None:
    """Let the role do something. For nothing, no statement: IAM refuses an empty list.

    Of much, several statements, each short enough for a policy of its own: what a role's own
    policy does not hold, CDK moves into managed ones, statement by statement.
    """
    for number, named in enumerate(pieces(list(resources)), start=1):
        statement = iam.PolicyStatement(
            sid=sid if number == 1 else f"{sid}{number}", actions=list(actions), resources=named
        )
        if isinstance(role, iam.Policy):
            role.add_statements(statement)
        else:
            role.add_to_policy(statement)


def table_arn(name: str) -> str:
    """A table of the account and region that is deployed to."""
    return f"arn:{Aws.PARTITION}:dynamodb:{Aws.REGION}:{Aws.ACCOUNT_ID}:table/{name}"


def bucket_arn(name: str) -> str:
    """A bucket, whose name is unique in its partition."""
    return f"arn:{Aws.PARTITION}:s3:::{name}"


def objects(bucket: s3.IBucket, *keys: str) -> list[str]:
    """Objects of a bucket; `*` in a key stands for anything, slashes too."""
    return [bucket.arn_for_objects(key) for key in keys]
