"""Log groups, and the key that they may be encrypted with."""

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
    "kms:Describe*",
    "kms:Encrypt",
    "kms:GenerateDataKey*",
    "kms:ReEncrypt*",
]


class Observability(Construct):
    """One log group for each function, and one for the state machine.

    CloudWatch Logs encrypts all of them by itself. `own_key` makes a KMS key for them besides;
    then its policy names the groups, and they name the key, so that the names are given here.
    """

    def __init__(
        self, scope: Construct, name: str, *, retention_days: int, own_key: bool = False
    ) -> None:
        super().__init__(scope, name)
        # Step Functions keeps what lets it write logs in one policy of the account and region,
        # whose size is limited; groups below this prefix need no entry of their own.
        machine = f"/aws/vendedlogs/states/{Aws.STACK_NAME}"
        functions = {each: f"/ddbload/{Aws.STACK_NAME}/{each}" for each in FUNCTIONS}
        self._key = self._made_key([machine, *functions.values()]) if own_key else None
        self.machine = self._group("StateMachine", machine, retention_days)
        self.functions = {
            each: self._group(each.title().replace("_", ""), group, retention_days)
            for each, group in functions.items()
        }

    def _made_key(self, groups: list[str]) -> kms.Key:
        return kms.Key(
            self,
            "Key",
            description=f"Log groups of {Aws.STACK_NAME}",
            enable_key_rotation=True,
            # The log groups go with the stack, and nothing else is encrypted with it.
            removal_policy=RemovalPolicy.DESTROY,
            pending_window=Duration.days(7),
            policy=_key_policy(groups),
        )

    def _group(self, name: str, group: str, retention_days: int) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            name,
            log_group_name=group,
            encryption_key=self._key,
            retention=_RETENTION[retention_days],
            removal_policy=RemovalPolicy.DESTROY,
        )


def _key_policy(groups: list[str]) -> iam.PolicyDocument:
    """Let CloudWatch Logs, and its callers through it, use the key, and the account look after it.

    By "Encrypt log data in CloudWatch Logs using AWS Key Management Service", step 2. Its callers
    are whoever makes the groups (CloudFormation's role), writes to them (the functions' roles and
    the machine's) and reads them. So all of the account are meant, as in the policies of AWS's own
    keys: who may call CloudWatch Logs, IAM says. In a key's own policy `*` is the key.
    """
    return iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(
                # It keeps the key from becoming unmanageable, and gives nobody its use.
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
            iam.PolicyStatement(
                sid="CallersOfCloudWatchLogs",
                principals=[iam.AnyPrincipal()],
                actions=_USE,
                resources=["*"],
                conditions={
                    "StringEquals": {
                        "kms:CallerAccount": Aws.ACCOUNT_ID,
                        "kms:ViaService": f"logs.{Aws.REGION}.amazonaws.com",
                    }
                },
            ),
        ]
    )
