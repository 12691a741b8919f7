"""The state machine, from statemachine/import.asl.json, and its permissions."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from . import DEFINITION
from .functions import Functions
from .policy_statements import allow, objects
from .storage import MAP_RUNS, Storage

MAP_LABEL = "ImportChunks"
"""Label of the distributed Map, which is part of its children's ARNs."""


class Workflow(Construct):
    """The machine, its role, and the permission to start itself.

    CDK does not read the definition, so each permission is given here. CloudFormation chooses the
    machine's name, so that several stacks can exist and a change can replace the machine. Tracing
    is off by default: X-Ray only allows the resource `*`, and is billed by trace.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        functions: Functions,
        storage: Storage,
        log_group: logs.ILogGroup,
        tracing: bool = False,
    ) -> None:
        super().__init__(scope, name)
        work = storage.work
        steps = {
            "PreflightFunctionArn": functions.preflight.invoked.function_arn,
            "ImportChunkFunctionArn": functions.import_chunk.invoked.function_arn,
            "ReportFunctionArn": functions.report.invoked.function_arn,
        }
        self.role = role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "states.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            ),
        )
        allow(role, "CallSteps", ["lambda:InvokeFunction"], steps.values())
        allow(role, "ReadManifests", ["s3:GetObject"], objects(work, "runs/*/manifest.json"))
        allow(
            role,
            "WriteMapResults",
            # From "IAM policies for using Distributed Map states".
            [
                "s3:AbortMultipartUpload",
                "s3:GetObject",
                "s3:ListMultipartUploadParts",
                "s3:PutObject",
            ],
            objects(work, f"{MAP_RUNS}*"),
        )
        # The Map reads the manifest, and writes its results.
        storage.allow_key(role)
        # Actions for log delivery, which `logs` adds, only allow the resource `*`.
        self.machine = sfn.StateMachine(
            self,
            "StateMachine",
            comment="Loads objects of S3 into an existing DynamoDB table",
            definition_body=sfn.DefinitionBody.from_string(DEFINITION.read_text("utf-8")),
            definition_substitutions={
                **steps,
                "WorkBucketName": work.bucket_name,
                "Partition": Aws.PARTITION,
            },
            role=role,
            logs=sfn.LogOptions(
                destination=log_group,
                level=sfn.LogLevel.ERROR,
                # Inputs contain bucket and object names, which must not be logged.
                include_execution_data=False,
            ),
            tracing_enabled=tracing,
        )
        self.executions = f"{self._executions}:*"
        """Pattern of the ARNs of the machine's executions, without the Map's children."""
        self._allow_map_runs(role)
        policy = iam.Policy(self, "AwaitTurns", roles=[functions.preflight.role])
        allow(policy, "WatchUploads", ["states:DescribeExecution"], [self.executions])

    @property
    def _executions(self) -> str:
        """ARN of the machine's executions, without their names."""
        return (
            f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:execution"
            f":{self.machine.state_machine_name}"
        )

    def _allow_map_runs(self, role: iam.Role) -> None:
        """Allow the distributed Map to start children, which are executions of the machine itself.

        A separate policy: it names the machine, which depends on the policy of its role.
        """
        policy = iam.Policy(self, "RunChildren", roles=[role])
        execution = self._executions
        allow(policy, "StartChildren", ["states:StartExecution"], [self.machine.state_machine_arn])
        # From "IAM permission to redrive a Map Run".
        allow(
            policy, "RedriveChildren", ["states:RedriveExecution"], [f"{execution}/{MAP_LABEL}:*"]
        )
        allow(
            policy,
            "WatchChildren",
            ["states:DescribeExecution", "states:StopExecution"],
            [self.executions, f"{execution}/{MAP_LABEL}:*"],
        )
