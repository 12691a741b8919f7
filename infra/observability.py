"""Log groups, and an optional KMS key that encrypts them."""

from __future__ import annotations

from typing import cast

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from .settings import FUNCTIONS

_ADMINISTRATION = [
    "kms:CancelKeyDeletion",
    "kms:DescribeKey",
    "kms:DisableKey",
    "kms:DisableKeyRotation",
    "kms:EnableKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListResourceTags",
    "kms:PutKeyPolicy",
    "kms:ScheduleKeyDeletion",
    "kms:TagResource",
    "kms:UntagResource",
    "kms:UpdateKeyDescription",
]
_USE = [
    "kms:Decrypt",
    "kms:Describe*",
    "kms:Encrypt",
    "kms:GenerateDataKey*",
    "kms:ReEncrypt*",
]


class Observability(Construct):
    """One log group for each function, and one for the state machine.

    CloudWatch Logs encrypts them with a key of AWS, or with `own_key` with a KMS key of the stack.
    The names are set here because the policy of that key lists the groups.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        service: str,
        retention_days: int,
        own_key: bool = False,
    ) -> None:
        """`service`: the pipeline's name, which is part of the groups' names."""
        super().__init__(scope, name)
        # Step Functions keeps its log permissions in one resource policy of limited size. Groups
        # below this prefix share one entry there.
        machine = f"/aws/vendedlogs/states/{service}"
        functions = {each: f"/ddbload/{service}/{each}" for each in FUNCTIONS}
        self._key = self._made_key(service, [machine, *functions.values()]) if own_key else None
        self.machine = self._group("StateMachine", machine, retention_days)
        self.functions = {
            each: self._group(each.title().replace("_", ""), group, retention_days)
            for each, group in functions.items()
        }

    def _made_key(self, service: str, groups: list[str]) -> kms.Key:
        return kms.Key(
            self,
            "Key",
            description=f"Log groups of {service}",
            enable_key_rotation=True,
            # The key encrypts only log groups, which are deleted with the stack.
            removal_policy=RemovalPolicy.DESTROY,
            pending_window=Duration.days(7),
            policy=_key_policy(groups),
        )

    def _group(self, name: str, group: str, retention_days: int) -> logs.LogGroup:
        made = logs.LogGroup(
            self,
            name,
            log_group_name=group,
            encryption_key=self._key,
            removal_policy=RemovalPolicy.DESTROY,
        )
        # The L2 construct takes names of numbers. The settings allow those that CloudWatch has.
        resource = cast("logs.CfnLogGroup", made.node.default_child)
        resource.retention_in_days = retention_days
        return made


def _key_policy(groups: list[str]) -> iam.PolicyDocument:
    """Allow CloudWatch Logs and its callers to use the key, and the account to manage it.

    From "Encrypt log data in CloudWatch Logs using AWS Key Management Service", step 2. The callers
    create the groups (CloudFormation's role), write to them (roles of functions and the machine)
    or read them. So all principals of the account are allowed, as in the policies of AWS managed
    keys; IAM decides who may call CloudWatch Logs. In a key policy `*` means the key.
    """
    # logs.cn-north-1.amazonaws.com.cn in China, as in CDK's own list of principals.
    service = f"logs.{Aws.REGION}.{Aws.URL_SUFFIX}"
    return iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(
                # Keeps the key manageable, without permission to use it.
                sid="AccountAdministers",
                principals=[iam.AccountRootPrincipal()],
                actions=_ADMINISTRATION,
                resources=["*"],
            ),
            iam.PolicyStatement(
                sid="LogGroupsOfThisStack",
                principals=[iam.ServicePrincipal(service)],
                actions=_USE,
                resources=["*"],
                conditions={
                    "ArnEquals": {
                        "kms:EncryptionContext:aws:logs:arn": [
                            f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}"
                            f":log-group:{group}"
                            for group in groups
                        ]
                    }
                },
            ),
            iam.PolicyStatement(
                sid="CallersOfCloudWatchLogs",
                principals=[iam.AnyPrincipal()],
                actions=_USE,
                resources=["*"],
                conditions={
                    "StringEquals": {
                        "kms:CallerAccount": Aws.ACCOUNT_ID,
                        "kms:ViaService": service,
                    }
                },
            ),
        ]
    )
