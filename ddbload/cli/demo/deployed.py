"""The whole demo: AWS on this machine, `cdk deploy`, an upload, the run that it starts, a proof."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ddbload.cli.demo.cdk import Cdk
from ddbload.cli.demo.checkout import check_checkout
from ddbload.cli.demo.emulation import emulation
from ddbload.cli.demo.outcome import proven, show_rejects
from ddbload.cli.demo.steps import progress, step
from ddbload.cli.demo.table import TABLE, Keys, create
from ddbload.cli.options import cores
from ddbload.cli.output import EXIT_FAILED, Result, tell
from ddbload.contracts import Failure
from ddbload.errors import DemoUnavailable, RunNotFound

if TYPE_CHECKING:
    from ddbload.cli.places import Deployed
    from ddbload.contracts import Report

STACK = "ddbload-demo"
PREFIX = "in/"
BEGINS_WITHIN = 60.0
"""Seconds from the upload's end to the run's beginning."""


def deploy_and_prove(path: Path, keys: Keys, folder: Path) -> int:
    """Deploy, upload a file, and follow its run; the exit status. Raises `DemoUnavailable`.

    `folder` takes everything that is written on the way. Nothing runs on afterwards.
    """
    from ddbload.aws_http.clients import AwsSettings
    from ddbload.cli.places import deployed

    check_checkout()
    cdk = Cdk(folder, _context(path.stat().st_size))
    with emulation(folder) as starting, cdk.synth() as synth:
        # The three share nothing but the processors: what can begin begins.
        with step("AWS on this machine") as words:
            aws = starting.ready()
            words.append(f"{aws['endpoint']}, DynamoDB {aws['dynamodb_endpoint']}")
        _use(aws["environment"])
        with step("cdk bootstrap, and cdk synth meanwhile"), cdk.bootstrap(aws) as bootstrap:
            bootstrap.wait()
            synth.wait()
        with step("cdk deploy") as words, cdk.deploy(aws) as deploy:
            deploy.wait()
            there = deployed(STACK, AwsSettings())
            words.append(f"stack {STACK}")
        create(there.context.clients.dynamodb, keys)
        run = _upload(path, there)
        return _follow_and_prove(run, there, keys, path)


def _context(size: int) -> dict[str, str]:
    """The deployment's knobs, all others being cdk.json's."""
    # Small chunks, so that several functions have something to do.
    options = {"chunk_bytes": max(64 * 1024, size // 16), "workers": max(2, cores())}
    uploads = [{"prefix": PREFIX, "table": TABLE, "options": options}]
    return {"stack_name": STACK, "tables": TABLE, "uploads": json.dumps(uploads)}


def _use(environment: Mapping[str, str]) -> None:
    """Reach the emulation, and nothing of anybody's own AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(environment)
    os.environ.update(AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)


def _upload(path: Path, there: Deployed) -> str:
    """Put the file into the inbox; the id of the run that its event is to start."""
    from ddbload.pipeline.upload import Upload

    # A file's name may be any bytes, an object's key is UTF-8.
    name = os.fsencode(path.name).decode("utf-8", "replace")
    bucket, key = there.stack.inbox_bucket, PREFIX + name
    with step("upload") as words, path.open("rb") as file:
        made = there.context.clients.s3.put_object(Bucket=bucket, Key=key, Body=file)
        words.append(f"s3://{bucket}/{key}")
    return Upload(bucket, key, made.get("VersionId"), made["ETag"].strip('"')).run


def _follow_and_prove(run: str, there: Deployed, keys: Keys, path: Path) -> int:
    from ddbload.pipeline.follow import concluded, follow
    from ddbload.pipeline.rejects import rejects

    with step("the upload's event starts a run") as words:
        arn = _begun(run, there)
        words.append(run)
    with progress() as draw:
        ledger = there.context.ledger(run)
        execution = follow(
            there.executions, arn, ledger, watch=draw, sleep=time.sleep, clock=time.monotonic
        )
    report = concluded(run, execution, there.context)
    if report is None:
        failure = execution.failure or Failure("RunNotFound", f"run {run} left no ledger")
        tell(f"ddbload: {failure.name}: {failure.message}")
        return EXIT_FAILED
    result = Result.of(report, seconds=execution.seconds)
    _summary(report, result, there)
    lines = list(rejects(run, there.context)) if result.rows.rejected else []
    show_rejects(lines)
    if result.error is not None:
        tell(f"ddbload: {result.error.name}: {result.error.message}")
        return result.exit_code
    client = there.context.clients.dynamodb
    return proven(client, keys, path, lines, otherwise=result.exit_code)


def _begun(run: str, there: Deployed) -> str:
    """The execution's ARN, once it has begun. Raises `DemoUnavailable`."""
    arn = there.executions.named(run)
    deadline = time.monotonic() + BEGINS_WITHIN
    while True:
        try:
            return there.executions.describe(arn).arn
        except RunNotFound:
            if time.monotonic() > deadline:
                raise DemoUnavailable(
                    f"the upload has started no run within {BEGINS_WITHIN:.0f} seconds"
                ) from None
            time.sleep(0.2)


def _summary(report: Report, result: Result, there: Deployed) -> None:
    place = f"s3://{there.stack.work_bucket}/runs/{report.run}"
    lines = [line for line in result.lines() if "rejects  " not in line]
    lines.insert(2, f"  chunks    {report.chunks_done:,} of {report.chunks:,} imported and proven")
    lines.append(f"  report    {place}/report.json, as long as this runs")
    click.echo("\n".join(lines))
