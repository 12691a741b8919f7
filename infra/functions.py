"""The Lambda functions, each with a role that allows only what its step needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from aws_cdk import Aws, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from . import variables
from .bundling import bundled
from .inputs import Access
from .layers import Layers
from .observability import Observability
from .policy_statements import (
    LIST_BUCKET,
    READ_OBJECTS,
    allow,
    bucket_arn,
    limited_source_statements,
    objects,
    use_keys,
)
from .settings import Settings
from .storage import HISTORY, ONCE, STARTS, UPLOAD_ORDER, Storage

TABLE_KEY = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
"""Actions on a table's key that writing needs, as CDK's `Table.grant_write_data` gives them."""
CHECK_TABLES = ("DescribeContinuousBackups", "DescribeTable")
WRITE_TABLES = (
    *("BatchWriteItem", "DeleteItem", "DescribeTable"),
    *("PartiQLInsert", "PutItem", "UpdateItem"),
)
"""Actions of an import. BatchWriteItem needs no permission for single items. Conditional writes
need PutItem and DeleteItem, updates UpdateItem, and the statements of mode insert PartiQLInsert.
Each invocation checks that the table is still the one that the run began with."""
DESCRIBE_TABLES = ("DescribeTable",)
CONNECT_TO_VPC = (
    *("ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface"),
    *("ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses"),
)
"""Actions of the managed policy AWSLambdaVPCAccessExecutionRole, without those on logs."""
REPORT_TIMEOUT = Duration.seconds(900)


class Function(Construct):
    """One function and its role.

    By default no concurrency is reserved, since that would reduce it for all other functions of
    the account. Each run limits its concurrency by `workers`.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        module: str,
        settings: Settings,
        log_group: logs.ILogGroup,
        **properties: Any,
    ) -> None:
        """`properties`: those of `lambda_.Function` that differ from one function to the next."""
        super().__init__(scope, name)
        # A rare event's function would only cost the snapshot's price.
        snapshots = settings.snap_start and module != "on_stopped"
        # Not the managed policy AWSLambdaBasicExecutionRole, which allows creating log groups
        # and writing to all of them.
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        allow(
            self.role,
            "WriteOwnLogs",
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            [log_group.log_group_arn],
        )
        self.function = lambda_.Function(
            self,
            "Function",
            runtime=lambda_.Runtime(
                settings.runtime, lambda_.RuntimeFamily.PYTHON, supports_snap_start=snapshots
            ),
            architecture=(
                lambda_.Architecture.ARM_64
                if settings.architecture == "arm64"
                else lambda_.Architecture.X86_64
            ),
            handler=f"lambdas.{module}.handler",
            role=self.role,
            log_group=log_group,
            memory_size=settings.memory_mb[module],
            tracing=lambda_.Tracing.ACTIVE if settings.tracing else None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snapshots else None,
            **properties,
        )
        self.invoked: lambda_.IFunction = (
            self.function.add_alias("live") if snapshots else self.function
        )
        """What others invoke. Only published versions have snapshots, and running executions go on
        with an alias when its version is replaced."""
        if settings.vpc is not None:
            self._connect(settings.vpc, settings)

    def _connect(self, vpc: str, settings: Settings) -> None:
        """Connect the function to a VPC, by ids: CDK's own way would look the VPC up.

        IAM has no resources for some of the actions that Lambda needs, so the conditions limit
        them: to this VPC, and to Lambda itself, since the function's own calls have the key.
        """
        function = cast("lambda_.CfnFunction", self.function.node.default_child)
        function.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=list(settings.subnets), security_group_ids=list(settings.security_groups)
        )
        # A VPC that is shared with the account has another account's ARN.
        arn = f"arn:{Aws.PARTITION}:ec2:{Aws.REGION}:*:vpc/{vpc}"
        conditions = {
            "ArnLikeIfExists": {"ec2:Vpc": arn},
            "Null": {"lambda:SourceFunctionArn": "true"},
        }
        allow(self.role, "ConnectToVpc", CONNECT_TO_VPC, ["*"], conditions)


class Functions(Construct):
    """The three functions of the state machine, and a factory for the others."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        service: str,
        settings: Settings,
        access: Access,
        storage: Storage,
        observability: Observability,
    ) -> None:
        super().__init__(scope, name)
        self._storage = storage
        self._access = access
        self._environment = variables.for_all(
            settings,
            work=storage.work.bucket_name,
            inbox=storage.inbox.bucket_name,
            account=Aws.ACCOUNT_ID,
            service=service,
        )
        self._settings = settings
        self._log_groups = observability.functions
        step_timeout = Duration.seconds(settings.timeout_seconds)
        stops_early = variables.for_stopping_early(settings)
        folder = bundled(settings.runtime)
        code_bytes = sum(path.stat().st_size for path in folder.rglob("*"))
        layers = Layers(self, "Layers", settings=settings, code_bytes=code_bytes).versions
        self._code = lambda_.Code.from_asset(str(folder))
        self.preflight = self.make(
            self,
            "preflight",
            "Checks a run's input and its table, and cuts the source into chunks",
            timeout=step_timeout,
            more={**stops_early, **variables.for_preflight(settings)},
            layers=layers,
        )
        self.import_chunk = self.make(
            self,
            "import_chunk",
            "Imports one chunk of a run",
            timeout=step_timeout,
            more=stops_early,
            layers=layers,
            reserved_concurrent_executions=settings.import_concurrency,
        )
        self.report = self.make(
            self,
            "report",
            "Adds up a run's ledger and says what came of it",
            timeout=REPORT_TIMEOUT,
        )
        self._allow_preflight(storage)
        for each in self.importing:
            self._allow_importing(each.role)
        for each in self.reporting:
            self.allow_reporting(each.role)
        check = {*CHECK_TABLES, *(WRITE_TABLES if settings.small_bytes else ())}
        # Long statements come last: CDK moves those that do not fit into managed policies.
        self.allow_tables(self.preflight.role, check)
        self.allow_tables(self.import_chunk.role, WRITE_TABLES)
        self.allow_tables(self.report.role, DESCRIBE_TABLES)
        for each in (self.preflight, self.import_chunk):
            self._allow_sources(each.role, storage)

    @property
    def importing(self) -> list[Function]:
        """The functions that write rows."""
        return [self.import_chunk, *self._finishing]

    @property
    def reporting(self) -> list[Function]:
        """The functions of the state machine that report runs, and send their event."""
        return [self.report, *self._finishing]

    @property
    def _finishing(self) -> list[Function]:
        return [self.preflight] if self._settings.small_bytes else []

    def make(
        self,
        scope: Construct,
        module: str,
        description: str,
        *,
        timeout: Duration,
        more: Mapping[str, str] | None = None,
        **properties: Any,
    ) -> Function:
        """Make a function from the asset, with the common environment and `more`."""
        made = Function(
            scope,
            module.title().replace("_", ""),
            module=module,
            description=description,
            code=self._code,
            settings=self._settings,
            log_group=self._log_groups[module],
            timeout=timeout,
            environment={**self._environment, **(more or {})},
            **properties,
        )
        self._storage.allow_key(made.role)
        return made

    def _allow_preflight(self, storage: Storage) -> None:
        role = self.preflight.role
        cut = ("runs/*/manifest.json", "runs/*/manifest/*", "runs/*/run.json")
        # With several objects: their listing, and the objects of each chunk. With compressed ones:
        # the points at which they are read.
        listed, parts, seek = "runs/*/listing/*", "runs/*/parts/*", "runs/*/seek/*"
        # For `force`, `once`, and the order of uploads.
        known = ("runs/*/report.json", f"{HISTORY}*")
        request = "runs/*/request.json"
        turns, starts = (f"{ONCE}*", f"{UPLOAD_ORDER}*"), f"{STARTS}*"
        allow(
            role,
            "ReadLedger",
            ["s3:GetObject"],
            objects(
                storage.work, "runs/*/control.json", listed, seek, request, *cut, *known, *turns
            ),
        )
        allow(
            role,
            "WriteLedger",
            ["s3:PutObject"],
            objects(
                storage.work,
                *("runs/*/execution.json", listed, *cut, parts, request, seek, *turns, starts),
            ),
        )
        # For `workers: auto`, and for a warning about a table's other traffic. IAM has no resources
        # for these two actions.
        limits = ["cloudwatch:GetMetricStatistics", "lambda:GetAccountSettings"]
        allow(role, "ReadLimits", limits, ["*"])

    def _allow_importing(self, role: iam.Role) -> None:
        """Allow a role what importing a chunk needs, but for reading its source."""
        work = self._storage.work
        allow(
            role,
            "ReadChunks",
            ["s3:GetObject"],
            objects(
                work,
                *("runs/*/chunks/*", "runs/*/control.json", "runs/*/parts/*", "runs/*/rejects/*"),
                *("runs/*/manifest.json", "runs/*/run.json", "runs/*/seek/*"),
            ),
        )
        allow(
            role,
            "WriteChunks",
            ["s3:PutObject"],
            objects(
                work,
                *("runs/*/attempts/*", "runs/*/chunks/*", "runs/*/failures/*"),
                *("runs/*/progress/*", "runs/*/rejects/*", "runs/*/seek/*"),
            ),
        )
        # A worker writes its progress under a new name, and deletes the one before.
        allow(
            role,
            "RenewProgress",
            ["s3:DeleteObject"],
            objects(work, "runs/*/progress/*"),
        )
        keys = self._access.table_keys
        use_keys(role, "WriteEncryptedTables", keys, TABLE_KEY, f"dynamodb.{Aws.REGION}")

    def allow_reporting(self, role: iam.Role) -> None:
        """Allow a role what reconciling a run's ledger needs."""
        work = self._storage.work
        allow(role, "ReadRuns", ["s3:GetObject"], objects(work, "runs/*", f"{HISTORY}*"))
        allow(role, "ListLedger", ["s3:ListBucket"], [work.bucket_arn])
        allow(role, "WriteHistory", ["s3:PutObject"], objects(work, f"{HISTORY}*"))
        reports = ("runs/*/report-parts/*", "runs/*/report.html", "runs/*/report.json")
        # The error of a run that failed before it had a record.
        written = (*reports, "runs/*/request.json")
        allow(role, "WriteReport", ["s3:PutObject"], objects(work, *written))

    def allow_tables(self, role: iam.Role, actions: Iterable[str]) -> None:
        """Allow a role these actions of DynamoDB on the tables that may be written."""
        named = [f"dynamodb:{each}" for each in sorted(actions)]
        allow(role, "UseTables", named, self._access.tables)

    def _allow_sources(self, role: iam.Role, storage: Storage) -> None:
        sources = self._settings.source_buckets
        others = (bucket_arn(s.bucket) for s in sources if s.owner is None and not s.prefix)
        buckets = [storage.inbox.bucket_arn, *others]
        allow(role, "ReadSources", READ_OBJECTS, [f"{bucket}/*" for bucket in buckets])
        allow(
            role,
            "ListSources",
            # For preflight's listings, and so that S3 answers 404 for a missing object instead of
            # 403. A condition on the prefix would never be met by GetObject, which has none.
            LIST_BUCKET,
            [*buckets, storage.work.bucket_arn],
        )
        for statement in limited_source_statements(sources):
            allow(role, *statement)
        # A source may be in another region.
        keys = self._access.source_keys
        use_keys(role, "ReadEncryptedSources", keys, ["kms:Decrypt"], "s3.*")
