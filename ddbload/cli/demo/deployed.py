"""Whole demo: deploy ddbload's stack to an emulated AWS, upload a file, and check the table."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click

from ddbload.aws.clients import AwsSettings
from ddbload.cli.demo.demo_table import (
    TABLE,
    create_table,
    keep_running,
    print_comparison,
    progress,
    show_rejects,
    step,
)
from ddbload.cli.options import cores
from ddbload.cli.output import print_error, print_stderr, print_stdout
from ddbload.cli.plan_command import NewKeys
from ddbload.cli.run_location import Deployed, find_deployed
from ddbload.cli.run_result import Result
from ddbload.contracts.results import Report
from ddbload.contracts.upload_rule import Upload
from ddbload.deploy.cdk import Cdk
from ddbload.deploy.toolchain import Toolchain, app_folder, copy_app, environment_without_aws
from ddbload.errors import DemoUnavailable, RunNotFound
from ddbload.runs.deployed import attempt_report, follow
from ddbload.runs.retry_rejects import iter_rejects

STOP_SECONDS = 15.0
"""Seconds in which the emulator may end its functions and servers."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """Starting AWS emulator; `wait_until_ready` waits for it."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]
    """Standard error of the emulator."""

    def wait_until_ready(self) -> Mapping[str, Any]:
        """Return the emulator's account, region, endpoints and environment.

        Raises `DemoUnavailable` if the emulator failed to start.
        """
        line = self.process.stdout.readline() if self.process.stdout else b""
        if not line:
            self.process.wait()
            self.log.seek(0)
            click.echo(self.log.read().decode(errors="replace"), err=True, nl=False)
            raise DemoUnavailable("the AWS emulator did not start; its output is above")
        found: Mapping[str, Any] = json.loads(line)
        return found


@contextmanager
def start_emulator(folder: Path, tools: Toolchain) -> Iterator[Emulator]:
    """Start the AWS emulator, with logs in `folder`, and stop it at the end of the block.

    It also stops if this process is killed, because its standard input is closed then.
    """
    with (folder / "localaws.log").open("w+b") as log:
        process = subprocess.Popen(  # noqa: S603 - the app's own emulator
            [tools.python, "-m", "localaws", "--exit-on-stdin-eof"],
            # It looks there for npm's packages.
            cwd=tools.node_modules.parent,
            env={
                **environment_without_aws(),
                "TMPDIR": str(folder),
                "PYTHONPATH": str(app_folder()),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            # Ctrl-C reaches this process alone, which stops the emulator in order.
            start_new_session=True,
        )
        try:
            yield Emulator(process, log)
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        print_stderr("ddbload: the AWS emulator did not stop in time and was killed")
    finally:
        # Also after a second Ctrl-C; has no effect if the process has ended.
        process.kill()
        process.wait()


STACK = "ddbload-demo"
PREFIX = "in/"
START_SECONDS = 60.0
"""Seconds after the upload in which the run must start."""


def deploy_and_verify(
    path: Path, keys: NewKeys, folder: Path, tools: Toolchain, *, keep: bool
) -> int:
    """Deploy the stack, upload a file, follow its run, and check the table.

    Returns the exit status. All files are written into `folder`, and all processes are stopped at
    the end; with `keep` that is when the user stops them. Raises `DemoUnavailable` and
    `DeploymentFailed`.
    """
    app = folder / "app"
    copy_app(app, {})
    cdk = Cdk(folder, tools, app, _context(path.stat().st_size))
    with start_emulator(folder, tools) as emulator, cdk.synth() as synth:
        # Synthesis needs no AWS, so it runs while the emulator starts.
        with step("AWS emulator") as details:
            aws = emulator.wait_until_ready()
            details.append(f"{aws['endpoint']}, DynamoDB {aws['dynamodb_endpoint']}")
        _use_environment(aws["environment"])
        account, region, variables = aws["account"], aws["region"], aws["environment"]
        with (
            step("cdk bootstrap and cdk synth"),
            cdk.bootstrap(account, region, variables) as bootstrap,
        ):
            bootstrap.wait()
            synth.wait()
        with step("cdk deploy") as details, cdk.deploy(variables) as deploy:
            deploy.wait()
            there = find_deployed(STACK, AwsSettings())
            details.append(f"stack {STACK}")
        create_table(there.context.clients.dynamodb, keys)
        run = _upload(path, there)
        status = _follow_and_verify(run, there, keys, path)
        if keep:
            keep_running(
                {**variables, "DDBLOAD_STACK": STACK},
                f"ddbload report {run}",
                f"ddbload runs --stack {STACK}",
            )
        return status


def _context(size: int) -> dict[str, str]:
    """Return the CDK context of the demo; all other values are those of cdk.json."""
    # Small chunks, so that several functions work in parallel.
    options = {"chunk_bytes": max(64 * 1024, size // 16), "workers": max(2, cores())}
    uploads = [{"prefix": PREFIX, "table": TABLE, "options": options}]
    return {"stack_name": STACK, "tables": TABLE, "uploads": json.dumps(uploads)}


def _use_environment(environment: Mapping[str, str]) -> None:
    """Point this process at the emulator, and drop the user's AWS settings."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(environment)
    os.environ.update(AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)


def _upload(path: Path, there: Deployed) -> str:
    """Upload the file to the inbox; return the id of the run that the upload starts."""
    # A file name may be any bytes, an object key is UTF-8.
    name = os.fsencode(path.name).decode("utf-8", "replace")
    bucket, key = there.stack.inbox_bucket, PREFIX + name
    with step("upload") as details, path.open("rb") as file:
        made = there.context.clients.s3.put_object(Bucket=bucket, Key=key, Body=file)
        details.append(f"s3://{bucket}/{key}")
    return Upload(bucket, key, made.get("VersionId"), made["ETag"].strip('"')).run


def _follow_and_verify(run: str, there: Deployed, keys: NewKeys, path: Path) -> int:

    with step("the upload's event starts a run") as words:
        arn = _wait_for_execution(run, there)
        words.append(run)
    with progress() as draw:
        ledger = there.context.ledger(run)
        execution = follow(
            there.executions, arn, ledger, watch=draw, sleep=time.sleep, clock=time.monotonic
        )
    report = attempt_report(run, execution, there.context)
    result = Result(report, execution.seconds)
    _summary(report, result, there)
    lines = list(iter_rejects(run, there.context)) if report.rows.rejected else []
    show_rejects(lines)
    if report.error is not None:
        print_error(report.error)
        return result.exit_code
    client = there.context.clients.dynamodb
    return print_comparison(client, keys, path, lines, otherwise=result.exit_code)


def _wait_for_execution(run: str, there: Deployed) -> str:
    """Wait for the execution of a run; return its ARN. Raises `DemoUnavailable`."""
    arn = there.executions.arn_of(run)
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return there.executions.describe(arn).arn
        except RunNotFound:
            if time.monotonic() > deadline:
                raise DemoUnavailable(
                    f"the upload did not start a run within {START_SECONDS:.0f} seconds"
                ) from None
            time.sleep(0.2)


def _summary(report: Report, result: Result, there: Deployed) -> None:
    place = f"s3://{there.stack.work_bucket}/runs/{report.run}"
    lines = [line for line in result.lines() if "rejects  " not in line]
    lines.insert(
        2, f"  chunks    {report.chunks_done:,} of {report.chunks:,} imported and verified"
    )
    lines.append(f"  report    {place}/report.json, until the demo ends")
    print_stdout(*lines)
