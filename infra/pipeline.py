"""The construct `ImportPipeline`, for any CDK app in Python."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Unpack

from aws_cdk import Annotations, ArnFormat, Aws, CfnOutput, Duration, Stack, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from ddbload import __version__

from .alarms import Alarms
from .dashboard import Dashboard
from .errors import DeploymentError, InvalidSetting, TableElsewhere, UnknownSetting
from .functions import Functions
from .inputs import Access, Knobs, Network, Source, Upload
from .measures import OWN, own
from .notice import Notice
from .observability import Observability
from .settings import Settings
from .storage import Storage
from .trigger import Trigger
from .variables import check
from .workflow import Workflow

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_./-]")
"""Characters that names of log groups cannot have."""


class ImportPipeline(Construct):
    """State machine that loads S3 objects into tables, with an inbox whose uploads start runs.

    A stack may have several. Roles get permissions for the given tables, buckets and their KMS
    keys; nothing is changed in the tables, the source buckets and the keys themselves.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        tables: Sequence[dynamodb.ITable],
        source_buckets: Sequence[s3.IBucket | Source] = (),
        uploads: Sequence[Upload] = (),
        kms_keys: Sequence[kms.IKey] = (),
        bucket_key: kms.IKey | None = None,
        layers: Sequence[lambda_.ILayerVersion] = (),
        alarm_topic: sns.ITopic | None = None,
        network: Network | None = None,
        name: str | None = None,
        **knobs: Unpack[Knobs],
    ) -> None:
        """Make the pipeline.

        Args:
            scope: Stack or construct that it belongs to.
            id: Id of the construct.
            tables: Tables that runs may write, of the pipeline's account and region.
            source_buckets: Buckets that runs may read, besides the inbox; `Source` for a prefix.
            uploads: Rules by which uploads start runs.
            kms_keys: Keys of imported tables and buckets that were imported without their keys.
            bucket_key: Key that encrypts the work bucket and the inbox; None for S3's own.
            layers: Layer versions for the functions that read sources.
            alarm_topic: Topic for alarms; None for no alarms.
            network: Network that the functions connect to; None for none.
            name: Part of the log groups' names, and value of the metrics' dimension; by default
                the stack's name and the construct's path in it.
            knobs: The other settings of docs/deploy.md.

        Raises the errors of `.errors`, which are those of settings in cdk.json.
        """
        super().__init__(scope, id)
        _refuse_texts(tables=tables, source_buckets=source_buckets, layers=layers)
        sources = [e if isinstance(e, Source) else Source(bucket=e) for e in source_buckets]
        self.name = name or f"{Aws.STACK_NAME}/{_path_in_stack(self)}"
        self._check_places(tables, uploads)
        try:
            settings = _settings(tables, sources, uploads, layers, network, knobs)
        except DeploymentError as error:
            raise type(error)(_readable(str(error), tables, sources, uploads)) from None
        check(settings, self.name)
        storage = Storage(
            self, "Storage", retain_runs_days=settings.retain_runs_days, key=bucket_key
        )
        observability = Observability(
            self,
            "Observability",
            service=self.name,
            retention_days=settings.log_retention_days,
            own_key=settings.log_key,
        )
        functions = Functions(
            self,
            "Functions",
            service=self.name,
            settings=settings,
            access=Access.of(tables, [each.bucket for each in sources], kms_keys),
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
        if alarm_topic is not None:
            Alarms(
                self,
                "Alarms",
                topic=alarm_topic,
                service=self.name,
                trigger=trigger,
                notice=notice,
            )
        if settings.dashboard:
            Dashboard(
                self,
                "Dashboard",
                service=self.name,
                functions=functions,
                trigger=trigger,
                notice=notice,
            )
        self._log_groups = observability.functions.values()
        self.state_machine: sfn.StateMachine = workflow.machine
        """Runs are executions of it."""
        self.inbox: s3.Bucket = storage.inbox
        """Uploads to it start runs."""
        self.work_bucket: s3.Bucket = storage.work
        """Has the ledger, below runs/."""
        self.upload_queue: sqs.Queue = trigger.queue
        """Uploads that wait for their run."""
        self.dead_letters: sqs.Queue = trigger.dead_letters
        """Uploads that could not start a run."""
        self.undelivered: sqs.Queue = notice.undelivered
        """Events of stopped executions that could not be concluded."""
        self.roles: Mapping[str, iam.Role] = {
            "Preflight": functions.preflight.role,
            "ImportChunk": functions.import_chunk.role,
            "Report": functions.report.role,
            "OnUpload": trigger.on_upload.role,
            "OnStopped": notice.on_stopped.role,
            "StateMachine": workflow.role,
        }
        """Roles by function, for the policies of keys, buckets and tables."""

    def metric(self, name: str, *, period: Duration | None = None) -> cloudwatch.Metric:
        """Return the sum of a metric that the functions emit, such as `RowsWritten`.

        `period`: five minutes by default. Raises `UnknownSetting` for another name.
        """
        if name not in OWN:
            near = difflib.get_close_matches(name, OWN, 1)
            hint = f"'{near[0]}' is meant?" if near else f"there are {', '.join(OWN)}"
            raise UnknownSetting(f"there is no metric '{name}': {hint}")
        return own(self.name, name, Duration.minutes(5) if period is None else period)

    def add_outputs(self, prefix: str = "") -> None:
        """Add the outputs by which the command line finds the pipeline, as `--stack STACK`.

        With a prefix, which the second pipeline of a stack needs, it is `--stack STACK/PREFIX`.
        """
        stack = Stack.of(self)
        groups = ",".join(group.log_group_name for group in self._log_groups)
        for name, value, description in (
            ("StateMachineArn", self.state_machine.state_machine_arn, "Runs are executions of it"),
            ("WorkBucketName", self.work_bucket.bucket_name, "Has the ledger, below runs/"),
            ("InboxBucketName", self.inbox.bucket_name, "Uploads to it start runs"),
            ("UploadQueueUrl", self.upload_queue.queue_url, "Uploads that wait for their run"),
            (
                "UploadDeadLetterQueueUrl",
                self.dead_letters.queue_url,
                "Uploads that could not start a run",
            ),
            ("FunctionLogGroups", groups, "What the functions log; ddbload logs"),
            ("Version", __version__, "Version of ddbload that was deployed"),
        ):
            CfnOutput(stack, f"{prefix}{name}", value=value, description=description)
        # For the policies of keys, buckets and tables.
        for name, role in self.roles.items():
            CfnOutput(stack, f"{prefix}{name}RoleArn", value=role.role_arn)

    def _check_places(self, tables: Sequence[dynamodb.ITable], uploads: Sequence[Upload]) -> None:
        """Raise an error for what is elsewhere, as far as that is known before deployment."""
        stack = Stack.of(self)
        here = (stack.account, stack.region)
        for table in tables:
            arn = stack.split_arn(table.table_arn, ArnFormat.SLASH_RESOURCE_NAME)
            for where in ((table.env.account, table.env.region), (arn.account, arn.region)):
                if any(map(_differ, where, here)):
                    known = ", ".join(
                        text for text in where if text and not Token.is_unresolved(text)
                    )
                    raise TableElsewhere(
                        f"the table {table.node.path} is in {known}, and tables of other accounts"
                        " or regions than the pipeline's are not supported: make a pipeline there"
                    )
        for number, upload in enumerate(uploads):
            bucket = upload.bucket
            if bucket is None:
                continue
            if any(map(_differ, (bucket.env.account, bucket.env.region), here)):
                raise InvalidSetting(
                    f"uploads[{number}] comes from the bucket {bucket.node.path} of another account"
                    " or region, whose events do not arrive here: upload to the pipeline's inbox"
                )
            made = isinstance(bucket, s3.Bucket) and bucket.node.default_child
            if (
                isinstance(made, s3.CfnBucket)
                and made.notification_configuration is None
                and bucket.node.try_find_child("Notifications") is None
            ):
                Annotations.of(self).add_warning_v2(
                    "ddbload:no-events",
                    f"Uploads to {bucket.node.path} start no run until it sends its events to"
                    " EventBridge: give it event_bridge_enabled=True",
                )


def _settings(
    tables: Sequence[dynamodb.ITable],
    sources: Sequence[Source],
    uploads: Sequence[Upload],
    layers: Sequence[lambda_.ILayerVersion],
    network: Network | None,
    knobs: Knobs,
) -> Settings:
    given = {
        "tables": [each.table_name for each in tables],
        "source_buckets": [each.to_setting() for each in sources],
        "uploads": [each.to_setting() for each in uploads],
        "layers": [each.layer_version_arn for each in layers],
    }
    if network is not None:
        given |= {
            "vpc": network.vpc,
            "subnets": list(network.subnets),
            "security_groups": list(network.security_groups),
        }
    if unknown := next((name for name in knobs if name not in Knobs.__annotations__), None):
        near = difflib.get_close_matches(unknown, Knobs.__annotations__, 1)
        hint = f"'{near[0]}' is meant?" if near else "docs/construct.md has all of them"
        raise UnknownSetting(f"ImportPipeline has no parameter '{unknown}': {hint}")
    return Settings.of({**knobs, **given})


def _refuse_texts(**given: Sequence[object]) -> None:
    """Raise `InvalidSetting` for names in place of CDK's objects."""
    for parameter, values in given.items():
        for each in values:
            if isinstance(each, str):
                raise InvalidSetting(
                    f"{parameter} has the text '{each}', and must have constructs: import what"
                    " exists, as by Table.from_table_name or Bucket.from_bucket_name"
                )


def _readable(
    text: str,
    tables: Sequence[dynamodb.ITable],
    sources: Sequence[Source],
    uploads: Sequence[Upload],
) -> str:
    """Replace tokens by the paths of their constructs."""
    for table in [*tables, *(each.table for each in uploads)]:
        text = text.replace(table.table_name, _shown(table.table_name, table))
    for bucket in [*(e.bucket for e in sources), *(e.bucket for e in uploads if e.bucket)]:
        text = text.replace(bucket.bucket_name, _shown(bucket.bucket_name, bucket))
    return text


def _shown(name: str, construct: dynamodb.ITable | s3.IBucket) -> str:
    return construct.node.path if Token.is_unresolved(name) else name


def _path_in_stack(construct: Construct) -> str:
    """Return a path that is unique in the stack, and can be part of a log group's name."""
    path = construct.node.path.removeprefix(Stack.of(construct).node.path).strip("/")
    plain = _UNNAMEABLE.sub("-", path)
    return plain if plain == path else f"{plain}-{construct.node.addr[:8]}"


def _differ(one: str | None, other: str | None) -> bool:
    """Return whether two accounts or regions are known to differ."""
    known = (text for text in (one, other) if text and not Token.is_unresolved(text))
    return len(set(known)) == 2
