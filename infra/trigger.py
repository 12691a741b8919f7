"""Trigger of runs by uploads: S3, EventBridge, queue, on_upload, state machine.

Uploads come in bursts, and StartExecution allows some hundred a second. The queue keeps what has to
wait. EventBridge would invoke the function for each event at once, and Lambda would discard what
was throttled for too long.
"""

from __future__ import annotations

from typing import Any

from aws_cdk import Duration, Stack, Token
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from . import variables
from .functions import Functions
from .policy_statements import allow, objects
from .settings import Settings
from .storage import UPLOAD_ORDER, Storage, encrypted_queue

TIMEOUT = Duration.seconds(60)
"""Timeout of on_upload, which begins no message in the last 30 seconds."""
VISIBILITY = Duration.seconds(6 * 60)
"""Six times the function's timeout, as "Configuring a queue to use with Lambda" demands: Lambda
retries throttled invocations so long. Failed messages come again after it."""
RECEIVES = 20
"""Deliveries after which a message is a dead letter: over about two hours."""
BATCH = 10
CONCURRENCY = 10
"""Batches in progress at once. Ten suffice for StartExecution's quota in every region."""
WAITING = Duration.days(7)
LOST = Duration.days(14)
"""SQS's limit. A message's age counts from its upload, so it is longer than `WAITING`."""


class Trigger(Construct):
    """The function on_upload, its queues, and an event rule for each bucket with upload rules."""

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
        self.dead_letters = encrypted_queue(self, "DeadLetters", LOST)
        letters = sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=RECEIVES)
        self.queue = encrypted_queue(
            self, "Uploads", WAITING, visibility_timeout=VISIBILITY, dead_letter_queue=letters
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
            objects(storage.work, "runs/*/report.json", "runs/*/run.json", f"{UPLOAD_ORDER}*"),
        )
        allow(role, "OrderUploads", ["s3:PutObject"], objects(storage.work, f"{UPLOAD_ORDER}*"))
        allow(role, "ListLedger", ["s3:ListBucket"], [storage.work.bucket_arn])
        self._read_queue(any_uploads=bool(settings.uploads))
        rules = [
            self._rule(_rule_id(bucket, number), pattern)
            for number, (bucket, pattern) in enumerate(
                variables.patterns(settings, inbox).items(), start=1
            )
        ]
        for queue in (self.queue, self.dead_letters):
            _allow_rules(queue, [rule.attr_arn for rule in rules])

    def _read_queue(self, *, any_uploads: bool) -> None:
        """Have Lambda invoke the function with the queue's messages."""
        allow(
            self.on_upload.role,
            "ReadQueue",
            # From "Configuring execution role permissions" for SQS; the L2 method allows more.
            ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"],
            [self.queue.queue_arn],
        )
        lambda_.EventSourceMapping(
            self,
            "ReadUploads",
            target=self.on_upload.invoked,
            event_source_arn=self.queue.queue_arn,
            batch_size=BATCH,
            max_concurrency=CONCURRENCY,
            report_batch_item_failures=True,
            # Lambda polls an empty queue too, and SQS bills each request. Nothing would arrive.
            enabled=any_uploads,
        )

    def _rule(self, name: str, pattern: dict[str, Any]) -> events.CfnRule:
        """Add the event rule for uploads to one bucket, below the prefixes of its upload rules.

        EventBridge retries for a day, and then sends the event to the dead letters itself. This is
        the L1 construct, since the L2 target lets rules read the queue's attributes as well.
        """
        return events.CfnRule(
            self,
            name,
            description="Uploads that start runs of ddbload",
            event_pattern=pattern,
            state="ENABLED",
            targets=[
                events.CfnRule.TargetProperty(
                    id="Uploads",
                    arn=self.queue.queue_arn,
                    dead_letter_config=events.CfnRule.DeadLetterConfigProperty(
                        arn=self.dead_letters.queue_arn
                    ),
                )
            ],
        )


def _rule_id(bucket: str | None, number: int) -> str:
    """Return a construct's id, which cannot have a name that is only known at deployment."""
    if bucket is None:
        return "Inbox"
    return f"Source{number}" if Token.is_unresolved(bucket) else f"Bucket-{bucket}"


def _allow_rules(queue: sqs.Queue, rules: list[str]) -> None:
    """Let EventBridge send to the queue for these rules, given by ARN, and for no others."""
    if not rules:
        return
    queue.add_to_resource_policy(
        iam.PolicyStatement(
            sid="SendUploads",
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            actions=["sqs:SendMessage"],
            resources=[queue.queue_arn],
            conditions={"ArnEquals": {"aws:SourceArn": rules}},
        )
    )
