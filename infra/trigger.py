"""Trigger of runs by uploads: S3, EventBridge, on_upload, state machine."""

from __future__ import annotations

from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra import variables
from infra.functions import Functions
from infra.policy_statements import allow, objects
from infra.settings import Settings
from infra.storage import Storage

TIMEOUT = Duration.seconds(60)
KEPT_TRYING = Duration.hours(6)
"""Retention of failed events, both by EventBridge and by Lambda, which retry so long."""


class Trigger(Construct):
    """The function on_upload, an event rule per bucket, and a dead-letter queue."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        settings: Settings,
        storage: Storage,
        functions: Functions,
        machine: sfn.StateMachine,
    ) -> None:
        super().__init__(scope, name)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
            removal_policy=RemovalPolicy.DESTROY,
        )
        inbox = storage.inbox.bucket_name
        self.on_upload = functions.make(
            self,
            "on_upload",
            "Starts a run for an uploaded object, once for each version",
            timeout=TIMEOUT,
            more=variables.for_uploads(
                machine=machine.state_machine_arn,
                mappings=Stack.of(self).to_json_string(variables.mappings(settings, inbox)),
            ),
        )
        role = self.on_upload.role
        allow(role, "StartRuns", ["states:StartExecution"], [machine.state_machine_arn])
        allow(
            role,
            "ReadLedger",
            ["s3:GetObject"],
            objects(storage.work, "runs/*/report.json", "runs/*/run.json"),
        )
        allow(role, "ListLedger", ["s3:ListBucket"], [storage.work.bucket_arn])
        self._keep_failures()
        for bucket, pattern in variables.patterns(settings, inbox).items():
            self._rule("Inbox" if bucket is None else f"Bucket-{bucket}", pattern)

    def _keep_failures(self) -> None:
        """Send events that fail in the function to the queue; EventBridge does not see them."""
        allow(
            self.on_upload.role,
            "KeepFailures",
            ["sqs:SendMessage"],
            [self.dead_letters.queue_arn],
        )
        lambda_.CfnEventInvokeConfig(
            self,
            "OnUploadFailures",
            function_name=self.on_upload.function.function_name,
            qualifier="$LATEST",
            maximum_retry_attempts=2,
            maximum_event_age_in_seconds=int(KEPT_TRYING.to_seconds()),
            destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
                on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(
                    destination=self.dead_letters.queue_arn
                )
            ),
        )

    def _rule(self, name: str, pattern: dict[str, Any]) -> None:
        """Add the event rule for uploads to one bucket, below the prefixes of its upload rules."""
        rule = events.Rule(
            self,
            name,
            description="Uploads that start runs of ddbload",
            event_pattern=events.EventPattern(
                source=pattern["source"],
                detail_type=pattern["detail-type"],
                detail=pattern["detail"],
            ),
        )
        rule.add_target(
            targets.LambdaFunction(
                self.on_upload.function,
                dead_letter_queue=self.dead_letters,
                max_event_age=KEPT_TRYING,
                retry_attempts=185,
            )
        )
