"""Deploy ddbload's stack to an emulated AWS, and import a file with its state machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import boto3

from bench.clients import ROOT
from ddbload.deploy.cdk import Cdk
from ddbload.deploy.toolchain import Toolchain
from lab import harness
from localaws import LocalAws

STACK, BUCKET, KEY = "ddbload-lab", "ddbload-lab-sources", "rows.tsv"
_BOOTSTRAP = b"functions/bootstrap.py"
"""Program that every function's process runs."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Report and cost of one execution."""

    seconds: float
    """Seconds of `ddbload start`, which follows the execution to its end."""
    cpu: float
    """CPU seconds of the functions' processes; 0 on a system without /proc."""
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StateMachine:
    """Deployed state machine on an emulated AWS."""

    stack: str
    bucket: str
    """Bucket that the stack may read."""
    table: str
    environment: Mapping[str, str]
    """Environment variables that direct ddbload's commands to the emulated AWS."""
    emulator: int
    """Process id of the emulated AWS."""
    s3: Any

    def upload(self, file: Path) -> None:
        """Use the file as the source of all following executions."""
        self.s3.upload_file(str(file), self.bucket, KEY)

    def load(self, workers: int, *, chunk_bytes: int) -> Execution:
        """Import the source with `workers` workers, and wait for the end.

        Raises `InvalidRound` if the execution fails.
        """
        before = _functions_cpu(self.emulator)
        command = harness.ddbload(
            *("start", f"s3://{self.bucket}/{KEY}", self.table, "--stack", self.stack, "--json"),
            *("--workers", str(workers), "--chunk-bytes", str(chunk_bytes)),
        )
        used = harness.run(command, self.environment)
        cpu = max(0.0, _functions_cpu(self.emulator) - before)
        return Execution(used.seconds, cpu, used.printed)


@contextmanager
def deployed(
    folder: Path, tools: Toolchain, table: str, environment: Mapping[str, str], processes: int
) -> Iterator[StateMachine]:
    """Deploy the stack. Its functions write to the DynamoDB given by `environment`.

    All files are created in `folder`, and all processes end with the block. `processes`: maximum
    processes per function. Raises `DeploymentFailed` and `LocalAwsFailed`.
    """
    context = {"stack_name": STACK, "tables": table, "source_buckets": BUCKET, "uploads": "[]"}
    own = folder / "cdk"
    own.mkdir()
    cdk = Cdk(own, tools, ROOT, context)
    dynamodb = {name: environment[name] for name in ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_CA_BUNDLE")}
    # Synthesis needs no AWS, so it runs while the emulator starts.
    with LocalAws("--concurrency", str(processes)) as aws, cdk.synth() as synth:
        with cdk.bootstrap(aws.account, aws.region, aws.environment) as bootstrap:
            bootstrap.wait()
            synth.wait()
        with cdk.deploy(aws.environment) as deploy:
            deploy.wait()
        functions = _client("lambda", aws)
        for each in functions.list_functions()["Functions"]:
            functions.update_function_configuration(
                FunctionName=each["FunctionName"],
                Environment={"Variables": {**each["Environment"]["Variables"], **dynamodb}},
            )
        s3 = _client("s3", aws)
        s3.create_bucket(Bucket=BUCKET)
        variables = {**environment, **aws.environment, **dynamodb}
        yield StateMachine(STACK, BUCKET, table, variables, aws.pid, s3)


def _client(service: Literal["lambda", "s3"], aws: LocalAws) -> Any:
    return boto3.client(
        service,
        endpoint_url=aws.endpoint,
        region_name=aws.region,
        aws_access_key_id=aws.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=aws.environment["AWS_SECRET_ACCESS_KEY"],
    )


def _functions_cpu(emulator: int) -> float:
    """Return the CPU seconds so far of the function processes that an emulator runs now."""
    cpu = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        # A process may end at any time.
        with suppress(OSError):
            # The program's name is in parentheses, and may contain spaces.
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[1]) == emulator and _BOOTSTRAP in (folder / "cmdline").read_bytes():
                cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return cpu
