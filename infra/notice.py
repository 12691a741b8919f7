"""Events about ended runs, and the function that concludes runs whose execution was stopped."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct

from ddbload.contracts.states import EVENT_SOURCE, RUN_COMPLETED

from . import variables
from .functions import DESCRIBE_TABLES, REPORT_TIMEOUT, Functions
from .policy_statements import allow, objects
from .storage import NOTICES, Storage, encrypted_queue
from .workflow import Workflow

ENDED_BADLY = ("ABORTED", "FAILED", "TIMED_OUT")
"""Statuses of executions that may have ended without Report."""
KEPT_TRYING = Duration.hours(6)
"""Time for which a failed event is retried, by EventBridge and by Lambda."""


class Notice(Construct):
    """Permission to send events, the function on_stopped, and the rule that invokes it.

    AWS delivers these events "best effort", and `ddbload status` does not rely on them.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        storage: Storage,
        functions: Functions,
        workflow: Workflow,
    ) -> None:
        super().__init__(scope, name)
        machine = workflow.machine.state_machine_arn
        self.on_stopped = functions.make(
            self,
            "on_stopped",
            "Concludes runs whose execution was stopped or failed without a report",
            timeout=REPORT_TIMEOUT,
            more=variables.for_executions(machine=machine),
        )
        role = self.on_stopped.role
        functions.allow_reporting(role)
        functions.allow_tables(role, DESCRIBE_TABLES)
        allow(role, "CancelRuns", ["s3:PutObject"], objects(storage.work, "runs/*/control.json"))
        allow(role, "DescribeRuns", ["states:DescribeExecution"], [workflow.executions])
        for each in (*(each.role for each in functions.reporting), role):
            _allow_events(each, storage.work)
        self.undelivered = encrypted_queue(self, "Undelivered", Duration.days(14))
        self._keep_failures()
        self._invoke_by_rule(machine)

    def _keep_failures(self) -> None:
        """Keep events that the function failed for; EventBridge does not see that."""
        queue = self.undelivered.queue_arn
        allow(self.on_stopped.role, "KeepFailures", ["sqs:SendMessage"], [queue])
        lambda_.CfnEventInvokeConfig(
            self,
            "OnStoppedFailures",
            function_name=self.on_stopped.function.function_name,
            qualifier="$LATEST",
            maximum_retry_attempts=2,
            maximum_event_age_in_seconds=int(KEPT_TRYING.to_seconds()),
            destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
                on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(destination=queue)
            ),
        )

    def _invoke_by_rule(self, machine: str) -> None:
        queue = self.undelivered
        rule = events.CfnRule(
            self,
            "Stopped",
            description="Executions of ddbload that may have ended without a report",
            event_pattern={
                "source": ["aws.states"],
                "detail-type": ["Step Functions Execution Status Change"],
                # Children of the Map have another machine's ARN, with its label.
                "detail": {"stateMachineArn": [machine], "status": list(ENDED_BADLY)},
            },
            state="ENABLED",
            targets=[
                events.CfnRule.TargetProperty(
                    id="OnStopped",
                    arn=self.on_stopped.function.function_arn,
                    dead_letter_config=events.CfnRule.DeadLetterConfigProperty(arn=queue.queue_arn),
                    retry_policy=events.CfnRule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=int(KEPT_TRYING.to_seconds()),
                        maximum_retry_attempts=185,
                    ),
                )
            ],
        )
        principal = iam.ServicePrincipal("events.amazonaws.com")
        self.on_stopped.function.add_permission(
            "InvokeByRule", principal=principal, source_arn=rule.attr_arn
        )
        queue.add_to_resource_policy(
            iam.PolicyStatement(
                sid="KeepUndelivered",
                principals=[principal],
                actions=["sqs:SendMessage"],
                resources=[queue.queue_arn],
                conditions={"ArnEquals": {"aws:SourceArn": rule.attr_arn}},
            )
        )


def _allow_events(role: iam.Role, work: s3.IBucket) -> None:
    """Allow a role to send the event of an ended run, and to mark it sent."""
    bus = f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-bus/default"
    conditions = {
        "StringEquals": {"events:source": EVENT_SOURCE, "events:detail-type": RUN_COMPLETED}
    }
    allow(role, "AnnounceRuns", ["events:PutEvents"], [bus], conditions)
    allow(role, "MarkAnnounced", ["s3:GetObject", "s3:PutObject"], objects(work, f"{NOTICES}*"))
