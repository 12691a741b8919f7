"""An upload starts a run: S3 → EventBridge → on_upload → the state machine."""

from __future__ import annotations

import json

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from ddbload.environment import STATE_MACHINE, UPLOADS
from infra.errors import TooManySettings
from infra.functions import Functions
from infra.permissions import allow, objects
from infra.settings import Settings
from infra.storage import Storage

TIMEOUT = Duration.seconds(60)
KEPT_TRYING = Duration.hours(6)
"""Both EventBridge, which calls the function, and Lambda, which runs it, try for so long."""
PATTERN_CHARACTERS = 2048
"""EventBridge's limit for a rule's event pattern."""


class Trigger(Construct):
    """on_upload, a rule for each bucket, and the queue for what neither could deliver."""

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
        # A mapping that names no bucket is for the inbox, and for no other bucket's uploads.
        mappings = [each.to_json(each.bucket or inbox) for each in settings.uploads]
        self.on_upload = functions.make(
            self,
            "on_upload",
            "Starts a run for an uploaded object, once for each version",
            timeout=TIMEOUT,
            more={
                STATE_MACHINE: machine.state_machine_arn,
                UPLOADS: Stack.of(self).to_json_string(mappings),
            },
        )
        role = self.on_upload.role
        allow(role, "StartRuns", ["states:StartExecution"], [machine.state_machine_arn])
        allow(role, "ReadLedger", ["s3:GetObject"], objects(storage.work, "runs/*"))
        allow(role, "ListLedger", ["s3:ListBucket"], [storage.work.bucket_arn])
        self._keep_failures()
        prefixes: dict[str | None, list[str]] = {}
        for each in settings.uploads:
            prefixes.setdefault(each.bucket, []).append(each.prefix)
        for bucket, those in prefixes.items():
            self._rule(bucket, inbox if bucket is None else bucket, those)

    def _keep_failures(self) -> None:
        """EventBridge only hands events over: what fails in the function is Lambda's to keep."""
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

    def _rule(self, bucket: str | None, name: str, prefixes: list[str]) -> None:
        """Uploads to one bucket, below the prefixes that mappings name for it."""
        detail: dict[str, object] = {"bucket": {"name": [name]}}
        if "" not in prefixes:
            detail["object"] = {"key": [{"prefix": prefix} for prefix in sorted(prefixes)]}
        pattern = {"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": detail}
        size = len(json.dumps(pattern))
        if size > PATTERN_CHARACTERS:
            raise TooManySettings(
                f"the event pattern for uploads to {bucket or 'the inbox'} would have {size}"
                f" characters, and EventBridge allows {PATTERN_CHARACTERS}: use fewer or shorter"
                " prefixes"
            )
        rule = events.Rule(
            self,
            "Inbox" if bucket is None else f"Bucket-{bucket}",
            description="Uploads that start runs of ddbload",
            event_pattern=events.EventPattern(
                source=["aws.s3"], detail_type=["Object Created"], detail=detail
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
