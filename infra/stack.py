"""The stack of the deployment."""

from __future__ import annotations

from typing import Any

from aws_cdk import Annotations, CfnOutput, Stack
from constructs import Construct

from ddbload import __version__
from infra.alarms import Alarms
from infra.dashboard import Dashboard
from infra.functions import Functions
from infra.notice import Notice
from infra.observability import Observability
from infra.settings import Settings
from infra.storage import Storage
from infra.trigger import Trigger
from infra.workflow import Workflow


class DdbloadStack(Stack):
    """One pipeline, for any account and region; stacks do not interfere with each other.

    Policies name existing tables; the stack never creates, imports or deletes one.
    """

    def __init__(self, scope: Construct, settings: Settings, **more: Any) -> None:
        super().__init__(
            scope,
            settings.stack_name,
            description="ddbload: loads S3 objects into DynamoDB tables",
            **more,
        )
        # `ddbload deploy` changes only what it is asked to, and reads here what there is.
        self.template_options.metadata = {
            "ddbload": {"version": __version__, "settings": settings.to_context()}
        }
        storage = Storage(
            self,
            "Storage",
            retain_runs_days=settings.retain_runs_days,
            key=settings.bucket_key,
        )
        observability = Observability(
            self,
            "Observability",
            retention_days=settings.log_retention_days,
            own_key=settings.log_key,
        )
        functions = Functions(
            self,
            "Functions",
            settings=settings,
            storage=storage,
            observability=observability,
        )
        workflow = Workflow(
            self,
            "Workflow",
            functions=functions,
            storage=storage,
            log_group=observability.machine,
            tracing=settings.tracing,
        )
        trigger = Trigger(
            self,
            "Trigger",
            settings=settings,
            storage=storage,
            functions=functions,
            machine=workflow.machine,
        )
        notice = Notice(self, "Notice", storage=storage, functions=functions, workflow=workflow)
        if settings.alarm_topic is not None:
            Alarms(self, "Alarms", topic=settings.alarm_topic, trigger=trigger, notice=notice)
        if settings.dashboard:
            Dashboard(self, "Dashboard", functions=functions, trigger=trigger, notice=notice)
        # The command line finds the stack by these outputs.
        for name, value, description in (
            ("StateMachineArn", workflow.machine.state_machine_arn, "Runs are executions of it"),
            ("WorkBucketName", storage.work.bucket_name, "Has the ledger, below runs/"),
            ("InboxBucketName", storage.inbox.bucket_name, "Uploads to it start runs"),
            ("UploadQueueUrl", trigger.queue.queue_url, "Uploads that wait for their run"),
            (
                "UploadDeadLetterQueueUrl",
                trigger.dead_letters.queue_url,
                "Uploads that could not start a run",
            ),
            (
                "FunctionLogGroups",
                ",".join(group.log_group_name for group in observability.functions.values()),
                "What the functions log; ddbload logs",
            ),
            ("Version", __version__, "Version of ddbload that was deployed"),
        ):
            CfnOutput(self, name, value=value, description=description)
        # For the policies of keys, buckets and tables.
        for name, role in (
            ("PreflightRoleArn", functions.preflight.role),
            ("ImportChunkRoleArn", functions.import_chunk.role),
            ("ReportRoleArn", functions.report.role),
            ("OnUploadRoleArn", trigger.on_upload.role),
            ("OnStoppedRoleArn", notice.on_stopped.role),
            ("StateMachineRoleArn", workflow.role),
        ):
            CfnOutput(self, name, value=role.role_arn)
        self._warn(settings)

    def _warn(self, settings: Settings) -> None:
        """Warn about settings that deploy but are probably mistakes."""
        notes = Annotations.of(self)
        if not settings.tables:
            notes.add_warning_v2(
                "ddbload:no-tables",
                "No table may be written: name some, as in `cdk deploy -c tables=books,films`,"
                " or in cdk.json",
            )
        if not settings.uploads:
            notes.add_warning_v2(
                "ddbload:no-uploads",
                "No upload starts a run: map prefixes to tables in cdk.json's uploads, if that"
                " is wanted",
            )
