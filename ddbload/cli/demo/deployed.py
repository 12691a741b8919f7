"""What the whole demo runs besides ddbload itself: the checkout, and what `make setup` installs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from ddbload.cli.demo.output import progress, proven, show_rejects, step
from ddbload.cli.demo.verify_table import TABLE, Keys, create
from ddbload.cli.options import cores
from ddbload.cli.output import EXIT_FAILED, Result, tell
from ddbload.contracts.results import Failure
from ddbload.errors import DemoUnavailable, RunNotFound

if TYPE_CHECKING:
    from ddbload.cli.run_location import Deployed
    from ddbload.contracts.results import Report


ROOT = Path(__file__).resolve().parents[3]
"""The checkout, where ddbload is installed from one (editable, as `make setup` does)."""
CDK = ROOT / "node_modules" / ".bin" / "cdk"


def check_checkout() -> None:
    """See that everything is there before anything is started. Raises `DemoUnavailable`."""
    parts = ("app.py", "cdk.json", "infra", "lambdas", "localaws", "statemachine")
    if not all((ROOT / part).exists() for part in parts):
        raise DemoUnavailable(
            "the whole demo deploys ddbload's checkout, which is not here: get it from where"
            " ddbload came from and run 'make demo' in it; or try `ddbload demo --import-only`"
        )
    if shutil.which("node") is None:
        raise DemoUnavailable("the demo needs Node.js 20 or later; install it and try again")
    if not CDK.exists():
        raise DemoUnavailable(f"{CDK} is not there; run 'make demo', or 'npm ci' first")
    for module in ("aws_cdk", "awslambdaric", "moto"):
        if find_spec(module) is None:
            raise DemoUnavailable(
                f"the Python module {module} is not installed here; run 'make demo', or 'make"
                " setup' first"
            )


_TIED = Path(__file__).with_name("child_process.py")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `cdk` that is under way."""

    name: str
    process: subprocess.Popen[bytes]
    words: Path

    def wait(self) -> None:
        """Wait for its end. Raises `DemoUnavailable` where it failed, and shows its words."""
        status = self.process.wait()
        if status:
            click.echo(self.words.read_text("utf-8", "replace"), err=True, nl=False)
            raise DemoUnavailable(f"cdk {self.name} ended with {status}; its own words are above")


class Cdk:
    """Commands of `cdk` on ddbload's app, whose files all lie in `folder`."""

    def __init__(self, folder: Path, context: Mapping[str, str]) -> None:
        self._folder = folder
        self._assembly = folder / "cdk.out"
        self._context = context
        home = folder / "home"
        home.mkdir()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            # Where cdk keeps caches and settings, which are to be nobody's.
            "HOME": str(home),
            # What they leave there when they are killed.
            "TMPDIR": str(home),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "true",
            # Unpacking the CDK's library takes longer than all of synthesis: so it is kept
            # between demos, in this checkout.
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(ROOT / "node_modules" / ".cache" / "jsii"),
            "NODE_NO_WARNINGS": "1",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        }

    @contextmanager
    def synth(self) -> Iterator[Command]:
        """Make the assembly, for which no AWS is needed."""
        arguments = ["--app", f"{shlex.quote(sys.executable)} app.py", "--quiet"]
        arguments += ["--output", str(self._assembly)]
        for name, value in self._context.items():
            arguments += ["--context", f"{name}={value}"]
        with self._command("synth", arguments, {}) as command:
            yield command

    @contextmanager
    def bootstrap(self, aws: Mapping[str, Any]) -> Iterator[Command]:
        """Make what deployments need in an account and region: `aws` says which."""
        where = f"aws://{aws['account']}/{aws['region']}"
        # Not where cdk.json is: it would synthesize the app, and has no need to.
        with self._command(
            "bootstrap", [where], aws["environment"], folder=self._folder
        ) as command:
            yield command

    @contextmanager
    def deploy(self, aws: Mapping[str, Any]) -> Iterator[Command]:
        """Deploy the assembly."""
        arguments = ["--app", str(self._assembly), "--require-approval", "never"]
        arguments += ["--method", "direct", "--progress", "events"]
        with self._command("deploy", arguments, aws["environment"]) as command:
            yield command

    @contextmanager
    def _command(
        self,
        name: str,
        arguments: list[str],
        environment: Mapping[str, str],
        *,
        folder: Path = ROOT,
    ) -> Iterator[Command]:
        words = self._folder / f"cdk-{name}.log"
        line = [str(CDK), name, *arguments, "--no-notices"]
        with words.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - the checkout's own cdk
                [sys.executable, "-I", str(_TIED), *line],
                cwd=folder,
                env={**self._environment, **environment},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield Command(name, process, words)
        finally:
            if process.stdin is not None:
                # Which ends it, if it has not ended.
                process.stdin.close()
            process.wait()


ENDS_WITHIN = 15.0
"""Seconds that it is given to end its functions and servers."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """One that is starting: `ready` waits for it."""

    process: subprocess.Popen[bytes]
    words: IO[bytes]
    """What it writes to its standard error."""

    def ready(self) -> Mapping[str, Any]:
        """What it says of itself: account, region, endpoints, environment.

        Raises `DemoUnavailable` when it ended instead.
        """
        line = self.process.stdout.readline() if self.process.stdout else b""
        if not line:
            self.process.wait()
            self.words.seek(0)
            click.echo(self.words.read().decode(errors="replace"), err=True, nl=False)
            raise DemoUnavailable("AWS on this machine did not start; its own words are above")
        found: Mapping[str, Any] = json.loads(line)
        return found


@contextmanager
def emulation(folder: Path) -> Iterator[Emulation]:
    """Start it; `folder` is for its words and the functions' logs. It ends with the block.

    However this process ends, it ends too: its standard input is closed then.
    """
    with (folder / "localaws.log").open("w+b") as words:
        process = subprocess.Popen(
            [sys.executable, "-m", "localaws", "--exit-on-stdin-eof"],
            cwd=ROOT,
            env={**_without_aws(), "TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            # Ctrl-C is for this process, which ends that one in order.
            start_new_session=True,
        )
        try:
            yield Emulation(process, words)
        finally:
            _end(process)


def _without_aws() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        tell("ddbload: AWS on this machine did not end in time, and was killed")
    finally:
        # Nothing where it has ended. Else at a second Ctrl-C, too.
        process.kill()
        process.wait()


STACK = "ddbload-demo"
PREFIX = "in/"
BEGINS_WITHIN = 60.0
"""Seconds from the upload's end to the run's beginning."""


def deploy_and_prove(path: Path, keys: Keys, folder: Path) -> int:
    """Deploy, upload a file, and follow its run; the exit status. Raises `DemoUnavailable`.

    `folder` takes everything that is written on the way. Nothing runs on afterwards.
    """
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.cli.run_location import deployed

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
    from ddbload.pipeline.on_upload import Upload

    # A file's name may be any bytes, an object's key is UTF-8.
    name = os.fsencode(path.name).decode("utf-8", "replace")
    bucket, key = there.stack.inbox_bucket, PREFIX + name
    with step("upload") as words, path.open("rb") as file:
        made = there.context.clients.s3.put_object(Bucket=bucket, Key=key, Body=file)
        words.append(f"s3://{bucket}/{key}")
    return Upload(bucket, key, made.get("VersionId"), made["ETag"].strip('"')).run


def _follow_and_prove(run: str, there: Deployed, keys: Keys, path: Path) -> int:
    from ddbload.runs.deployed import concluded, follow
    from ddbload.runs.retry_rejects import iter_rejects

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
    lines = list(iter_rejects(run, there.context)) if result.rows.rejected else []
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
