"""Log groups, and the key that they are encrypted with."""

from __future__ import annotations

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.settings import FUNCTIONS

_RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    120: logs.RetentionDays.FOUR_MONTHS,
    150: logs.RetentionDays.FIVE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
    1096: logs.RetentionDays.THREE_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    2192: logs.RetentionDays.SIX_YEARS,
    2557: logs.RetentionDays.SEVEN_YEARS,
    2922: logs.RetentionDays.EIGHT_YEARS,
    3288: logs.RetentionDays.NINE_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}

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
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
]


class Observability(Construct):
    """One log group for each function, and one for the state machine.

    Their names are ours and have the stack's name in them: the key's policy names the groups,
    and a group names its key, so that one of the two must be known beforehand.
    """

    def __init__(self, scope: Construct, name: str, *, retention_days: int) -> None:
        super().__init__(scope, name)
        # Step Functions keeps what lets it write logs in one policy of the account and region,
        # whose size is limited; groups below this prefix need no entry of their own.
        machine = f"/aws/vendedlogs/states/{Aws.STACK_NAME}"
        functions = {each: f"/ddbload/{Aws.STACK_NAME}/{each}" for each in FUNCTIONS}
        self.key = kms.Key(
            self,
            "Key",
            description=f"Log groups of {Aws.STACK_NAME}",
            enable_key_rotation=True,
            # The log groups go with the stack, and nothing else is encrypted with it.
            removal_policy=RemovalPolicy.DESTROY,
            pending_window=Duration.days(7),
            policy=_key_policy([machine, *functions.values()]),
        )
        self.machine = self._group("StateMachine", machine, retention_days)
        self.functions = {
            each: self._group(each.title().replace("_", ""), group, retention_days)
            for each, group in functions.items()
        }

    def _group(self, name: str, group: str, retention_days: int) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            name,
            log_group_name=group,
            encryption_key=self.key,
            retention=_RETENTION[retention_days],
            removal_policy=RemovalPolicy.DESTROY,
        )


def _key_policy(groups: list[str]) -> iam.PolicyDocument:
    """CloudWatch Logs may use the key for these groups; the account may look after it.

    In a key's own policy `*` is the key. The account's statement is what keeps the key from
    becoming unmanageable; it gives nobody the use of the key. The other one is that of "Encrypt
    log data in CloudWatch Logs using AWS KMS".
    """
    return iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(
                sid="AccountAdministers",
                principals=[iam.AccountRootPrincipal()],
                actions=_ADMINISTRATION,
                resources=["*"],
            ),
            iam.PolicyStatement(
                sid="LogGroupsOfThisStack",
                principals=[iam.ServicePrincipal(f"logs.{Aws.REGION}.amazonaws.com")],
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
        ]
    )
