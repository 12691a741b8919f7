"""AWS on this machine with the stack deployed to it, seen from outside."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from localaws import LocalAws
from tests.cli.console import ROOT
from tests.cli.transcript import items, make_table

CDK = ROOT / "node_modules" / ".bin" / "cdk"
SOURCES = "ddbload-tests-sources"
"""A bucket that the stack may read besides its inbox. It keeps no versions."""
FORBIDDEN = "ddbload-tests-forbidden"
"""A bucket that it may not read."""
PAGE_STACK = "shop"
"""The stack of the app in docs/construct.md."""
LONG = 240.0
"""Seconds in which anything here has ended, on a busy machine too."""
POLL_SECONDS = 0.2
"""Asking more often would cost the servers more than what is waited for."""


def until(holds: Callable[[], object], otherwise: str) -> None:
    """Wait until something in the cloud holds. Raises AssertionError when it takes too long."""
    deadline = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(POLL_SECONDS)


class Cloud:
    """The account: its clients, a bucket, and tables that the stacks may write."""

    def __init__(self, aws: LocalAws, folder: Path, tables: int = 80) -> None:
        self.aws = aws
        self.folder = folder
        self.environment: Mapping[str, str] = dict(aws.environment)
        self.tables = [f"t{number:02}" for number in range(tables)]
        self._free = iter(self.tables)
        for bucket in (SOURCES, FORBIDDEN):
            self.s3.create_bucket(Bucket=bucket)
        self._cdk("bootstrap", f"aws://{aws.account}/{aws.region}")

    def client(self, service: str) -> Any:
        """A client of somebody with all rights."""
        given = self.environment
        dynamodb = service == "dynamodb"
        return boto3.client(
            service,
            endpoint_url=self.aws.dynamodb_endpoint if dynamodb else self.aws.endpoint,
            region_name=self.aws.region,
            aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
            config=Config(max_pool_connections=30),
        )

    @cached_property
    def s3(self) -> Any:
        return self.client("s3")

    @cached_property
    def dynamodb(self) -> Any:
        return self.client("dynamodb")

    @cached_property
    def stepfunctions(self) -> Any:
        return self.client("stepfunctions")

    @cached_property
    def lambda_(self) -> Any:
        return self.client("lambda")

    def table(self, *keys: str, name: str | None = None) -> str:
        """Make a table that nobody else uses, keyed by `id:S` if nothing is said; its name."""
        name = name or next(self._free)
        make_table(self.dynamodb, name, *(keys or ("id:S",)))
        return name

    def unmade_table(self) -> str:
        """The name of a table that may be written, and does not exist."""
        return next(self._free)

    def items(self, table: str) -> list[dict[str, Any]]:
        """All that a table has."""
        return list(items(self.dynamodb, table))

    def deploy(
        self,
        name: str,
        uploads: list[dict[str, Any]],
        *,
        app: str = "tests.infra.unvalidated_app",
        **knobs: object,
    ) -> Stack:
        """Deploy a stack, and all others of the app, by the command that anybody would use."""
        context = {
            "stack_name": name,
            "source_buckets": SOURCES,
            "tables": ",".join([*self.tables, *{upload["table"] for upload in uploads}]),
            "uploads": json.dumps(uploads),
            **knobs,
        }
        words = [word for key, value in context.items() for word in ("-c", f"{key}={value}")]
        program = ("--app", f"{sys.executable} -m {app}", "--output", str(self.folder / "cdk"))
        self._deploy(*program, *words)
        return Stack(self, name, self.outputs(name))

    def deploy_assembly(self, name: str, folder: Path, *prefixes: str) -> list[Stack]:
        """Deploy a stack that is synthesized already; its pipelines, by the prefixes of outputs.

        CloudFormation here makes no tables in dynalite: make them by the names in `tables`.
        """
        # cdk deploys nothing with findings, which tests/infra/test_nag.py reads.
        unjudged = self.folder / f"cdk-{name}"
        shutil.copytree(folder, unjudged, ignore=shutil.ignore_patterns("validation-report.json"))
        self._deploy("--app", str(unjudged))
        outputs = self.outputs(name)
        return [
            Stack(
                self,
                name,
                {
                    key.removeprefix(prefix): value
                    for key, value in outputs.items()
                    if key.startswith(prefix)
                },
            )
            for prefix in prefixes
        ]

    def _deploy(self, *words: str) -> None:
        never = ("--require-approval", "never")
        self._cdk("deploy", "--all", *never, "--progress", "events", *words)

    def outputs(self, name: str) -> dict[str, str]:
        """Return the outputs of a deployed stack."""
        answer = self.client("cloudformation").describe_stacks(StackName=name)
        outputs = answer["Stacks"][0]["Outputs"]
        return {each["OutputKey"]: each["OutputValue"] for each in outputs}

    def _cdk(self, *words: str) -> None:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        done = subprocess.run(
            [CDK, *words],
            # A bootstrap needs no app, and must not look for one.
            cwd=ROOT if "--app" in words else self.folder,
            env={
                **ours,
                **self.environment,
                "CDK_HOME": str(self.folder / "cdk-home"),
                "CDK_DISABLE_CLI_TELEMETRY": "true",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONG,
            check=False,
        )
        assert done.returncode == 0, done.stdout.decode(errors="replace")


@dataclass
class Stack:
    """A deployed stack."""

    cloud: Cloud
    name: str
    outputs: Mapping[str, str]
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _uploads: dict[str, Any] = field(default_factory=dict)

    @property
    def machine(self) -> str:
        return self.outputs["StateMachineArn"]

    @property
    def work(self) -> str:
        return self.outputs["WorkBucketName"]

    @property
    def inbox(self) -> str:
        return self.outputs["InboxBucketName"]

    def put(self, data: bytes | str, key: str | None = None, bucket: str = SOURCES) -> str:
        """Make an object; its key."""
        key = key or f"{self.name}/{next(self._numbers)}.csv"
        body = data.encode() if isinstance(data, str) else data
        self.cloud.s3.put_object(Bucket=bucket, Key=key, Body=body)
        return key

    def start(self, payload: object, name: str | None = None) -> str:
        """Start an execution, as `aws stepfunctions start-execution` does; its ARN."""
        answer = self.cloud.stepfunctions.start_execution(
            stateMachineArn=self.machine,
            name=name or f"run-{uuid.uuid4().hex[:12]}",
            input=json.dumps(payload),
        )
        return str(answer["executionArn"])

    def function(self, step: str) -> str:
        """The name of the function of a step, as `import_chunk`."""
        handler = f"lambdas.{step}.handler"
        answer = self.cloud.lambda_.list_functions()
        (found,) = (
            each["FunctionName"]
            for each in answer["Functions"]
            if each["Handler"] == handler
            and each["Environment"]["Variables"].get("DDBLOAD_WORK_BUCKET") == self.work
        )
        return str(found)

    def role(self, step: str) -> str:
        """The name of the role that a function has."""
        found = self.cloud.lambda_.get_function_configuration(FunctionName=self.function(step))
        return str(found["Role"].rpartition("/")[2])

    def configure(self, step: str, **changes: str) -> Callable[[], None]:
        """Change environment variables of a function; what puts them back."""
        client, name = self.cloud.lambda_, self.function(step)
        before = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        client.update_function_configuration(
            FunctionName=name, Environment={"Variables": {**before, **changes}}
        )
        return lambda: client.update_function_configuration(
            FunctionName=name, Environment={"Variables": before}
        )

    @property
    def tables(self) -> list[str]:
        """The names of the tables that the functions may write."""
        found = self.cloud.lambda_.get_function_configuration(FunctionName=self.function("report"))
        return str(found["Environment"]["Variables"]["DDBLOAD_TABLES"]).split(",")

    @property
    def undelivered(self) -> int:
        """The number of stopped executions for which on_stopped has failed for good."""
        sqs = self.cloud.client("sqs")
        urls = [each for each in sqs.list_queues()["QueueUrls"] if "NoticeUndelivered" in each]
        name = "ApproximateNumberOfMessages"
        return sum(
            int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])
            for url in urls
        )

    def executions(self) -> list[str]:
        """The ARNs of all executions, except those of a Map's children."""
        pages = self.cloud.stepfunctions.get_paginator("list_executions")
        found = pages.paginate(stateMachineArn=self.machine)
        return [each["executionArn"] for page in found for each in page["executions"]]

    def started_by(self, key: str, version: str | None = None) -> list[str]:
        """The executions that uploads of this key, or of this version of it, have started."""
        for arn in self.executions():
            if arn not in self._uploads and ":upload-" in arn:
                described = self.cloud.stepfunctions.describe_execution(executionArn=arn)
                self._uploads[arn] = json.loads(described["input"])
        return [
            arn
            for arn, given in self._uploads.items()
            if given.get("source", {}).get("key") == key
            and version in (None, given["source"]["version_id"])
        ]

    def upload(self, data: bytes | str, key: str, bucket: str | None = None) -> str | None:
        """Upload a file, which is to start a run; its version."""
        body = data.encode() if isinstance(data, str) else data
        answer = self.cloud.s3.put_object(Bucket=bucket or self.inbox, Key=key, Body=body)
        return answer.get("VersionId")

    def execution_of(self, key: str, version: str | None = None) -> str:
        """The one execution that an upload starts; waits for it."""
        until(lambda: self.started_by(key, version), f"nothing was started for {key}")
        (arn,) = self.started_by(key, version)
        return arn
