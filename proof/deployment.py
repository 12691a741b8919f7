"""The stack of a proof: bootstrapped, deployed by `cdk`, and used by `ddbload` and AWS's calls."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ddbload.deploy import child_process
from ddbload.deploy.cdk import failure_cause
from proof.account import PREFIX, TAG, Account, ProofError, Record, require
from proof.cleanup import TOOLKIT

ROOT = Path(__file__).resolve().parent.parent
_CDK = ROOT / "node_modules" / ".bin" / "cdk"
_DEPLOY_SECONDS = 1200.0
_NOT_PROPAGATED = re.compile(r"assume|not authorized to perform: sts", re.IGNORECASE)
"""What a deployment says if IAM does not know the roles of the bootstrapping everywhere yet."""
_ATTEMPTS = 4


def run_command(
    words: Sequence[str], *, seconds: float, cwd: Path = ROOT, **environment: str
) -> tuple[int, str, str]:
    """Run a command that ends with this process; return its status and output.

    Raises `ProofError` after `seconds`.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            [sys.executable, "-I", str(child_process.__file__), *words],
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            # Ctrl-C reaches this process, which ends the command.
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ProofError(f"{words[-1]}: more than {seconds:.0f} seconds") from None
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()
        out.seek(0)
        err.seek(0)
        return process.returncode, out.read(), err.read()


class Cdk:
    """Commands of `cdk` with a bootstrapping of the proof's own, which it removes again.

    A bucket, five roles and a repository that other CDK apps share stay untouched this way.
    """

    def __init__(self, account: Account, record: Record, folder: Path) -> None:
        self._account, self._record, self._folder = account, record, folder
        self.stack = PREFIX + record.proof
        self._qualifier = f"p{record.proof}"
        self._toolkit = ("--toolkit-stack-name", f"{self.stack}{TOOLKIT}")
        self._tags = ("--tags", f"{TAG}={record.proof}")

    def bootstrap(self) -> None:
        """Make the stack with the roles and the bucket that a deployment uses."""
        self._record.note(f"stack {self.stack}{TOOLKIT}")
        place = f"aws://{self._account.number}/{self._account.region}"
        own = ("--qualifier", self._qualifier, *self._toolkit, *self._tags)
        # In a folder without cdk.json: otherwise cdk would synthesize the app first.
        status, said = self._cdk("bootstrap", place, *own, cwd=self._folder)
        require(not status, f"cdk bootstrap failed: {failure_cause(said, status)}")

    def deploy(self, settings: Mapping[str, str]) -> None:
        """Deploy the stack, as docs/deploy.md says for a checkout."""
        self._record.note(f"stack {self.stack}")
        context = {"@aws-cdk/core:bootstrapQualifier": self._qualifier, **settings}
        words = [
            "--app",
            f"{shlex.quote(sys.executable)} app.py",
            "--output",
            str(self._folder / "cdk.out"),
        ]
        words += ["--require-approval", "never", "--method", "direct", "--progress", "events"]
        for name, value in {"stack_name": self.stack, **context}.items():
            words += ["-c", f"{name}={value}"]
        for attempt in range(_ATTEMPTS):
            status, said = self._cdk("deploy", *words, *self._toolkit, *self._tags, cwd=ROOT)
            if not status:
                return
            if _NOT_PROPAGATED.search(said) is None or attempt == _ATTEMPTS - 1:
                break
            self._account.pause(15)
        raise ProofError(f"cdk deploy failed: {failure_cause(said, status)}")

    def _cdk(self, *words: str, cwd: Path) -> tuple[int, str]:
        status, out, err = run_command(
            [str(_CDK), *words, "--no-notices"],
            seconds=_DEPLOY_SECONDS,
            cwd=cwd,
            CDK_HOME=str(self._folder),
            CDK_DISABLE_CLI_TELEMETRY="true",
            JSII_RUNTIME_PACKAGE_CACHE_ROOT=str(ROOT / "node_modules" / ".cache" / "jsii"),
            NO_COLOR="1",
        )
        return status, f"{err}\n{out}"


@dataclass(frozen=True, slots=True)
class Ended:
    """Event of a run that ended, and when it arrived, by `time.monotonic`."""

    detail: Mapping[str, Any]
    at: float

    @property
    def status(self) -> str:
        return str(self.detail["status"])


class Deployment:
    """The deployed stack, and the queue that gets its events."""

    def __init__(self, account: Account, stack: str, events: str) -> None:
        self.account, self.stack = account, stack
        client = account.client("cloudformation")
        described = client.describe_stacks(StackName=stack)["Stacks"][0]
        self.outputs: dict[str, str] = {
            each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]
        }
        pages = client.get_paginator("list_stack_resources").paginate(StackName=stack)
        self._resources = [each for page in pages for each in page["StackResourceSummaries"]]
        self._events = events
        self._ended: dict[str, list[Ended]] = {}

    @property
    def machine(self) -> str:
        return self.outputs["StateMachineArn"]

    @property
    def work(self) -> str:
        return self.outputs["WorkBucketName"]

    @property
    def inbox(self) -> str:
        return self.outputs["InboxBucketName"]

    @cached_property
    def log_groups(self) -> list[str]:
        """Names of the functions' log groups."""
        return self.outputs["FunctionLogGroups"].split(",")

    def resource(self, kind: str, word: str) -> str:
        """Return the name of the one resource of a kind whose logical id has a word in it."""
        (found,) = (
            each["PhysicalResourceId"]
            for each in self._resources
            if each["ResourceType"] == kind and word in each["LogicalResourceId"]
        )
        return str(found)

    def ddbload(self, *words: str, seconds: float = 900.0) -> dict[str, Any]:
        """Run a command of ddbload on the stack; return its JSON.

        Raises `ProofError` unless it prints some.
        """
        line = [sys.executable, "-m", "ddbload", *words, "--stack", self.stack, "--json"]
        status, out, err = run_command(line, seconds=seconds)
        try:
            answer: dict[str, Any] = json.loads(out)
        except ValueError:
            said = (err.strip().splitlines() or [f"exit status {status}"])[-1]
            raise ProofError(f"ddbload {words[0]}: {said}") from None
        return answer

    def execute(self, run: str, bucket: str, table: str) -> None:
        """Start an execution for the object named as the run, as a program does."""
        source = {"bucket": bucket, "key": run}
        client = self.account.client("stepfunctions")
        text = json.dumps({"source": source, "target": {"table": table}})
        client.start_execution(stateMachineArn=self.machine, name=run, input=text)

    def start(self, run: str, source: str, table: str, *words: str, seconds: float = 900.0) -> Any:
        """Run `ddbload start` to the end; return its result. A run that takes longer is cancelled.

        Raises `ProofError`.
        """
        try:
            return self.ddbload("start", source, table, "--run-id", run, *words, seconds=seconds)
        except ProofError:
            self.ddbload("cancel", run)
            raise

    def execution(self, run: str) -> str:
        """Return the ARN of the first execution of a run."""
        return f"{self.machine.replace(':stateMachine:', ':execution:')}:{run}"

    def ended(self, run: str, seconds: float) -> Ended:
        """Wait for the first event of a run. Raises `ProofError`."""
        wait = self.account.until
        found: list[Ended] = wait(lambda: self.runs_ended().get(run), f"run {run}", seconds)
        return found[0]

    def runs_ended(self) -> Mapping[str, list[Ended]]:
        """Return the events that have arrived, by run."""
        client = self.account.client("sqs")
        request: dict[str, Any] = {"QueueUrl": self._events, "MaxNumberOfMessages": 10}
        # A queue that is not asked to wait may keep some of its messages.
        request |= {"WaitTimeSeconds": 0 if self.account.emulated else 1}
        while messages := client.receive_message(**request).get("Messages"):
            for each in messages:
                detail = json.loads(each["Body"])["detail"]
                self._ended.setdefault(detail["run"], []).append(Ended(detail, time.monotonic()))
                handle = each["ReceiptHandle"]
                client.delete_message(QueueUrl=self._events, ReceiptHandle=handle)
        return self._ended

    def used(self, arn: str) -> tuple[int, float]:
        """Return an execution's state transitions, and its functions' GB-seconds, at most.

        Children of its Map are counted where they can be listed, which is not so in the emulation.
        """
        histories = [self._history(arn)]
        client = self.account.client("stepfunctions")
        if not self.account.emulated:
            for each in client.list_map_runs(executionArn=arn)["mapRuns"]:
                pages = client.get_paginator("list_executions").paginate(
                    mapRunArn=each["mapRunArn"]
                )
                children = [child["executionArn"] for page in pages for child in page["executions"]]
                histories += [self._history(child) for child in children]
        entered = sum(e["type"].endswith("StateEntered") for h in histories for e in h)
        seconds = sum(_task_seconds(history) for history in histories)
        # A child's start is a transition, too.
        return entered + len(histories) - 1, seconds * _memory_gb()

    def _history(self, arn: str) -> list[dict[str, Any]]:
        client = self.account.client("stepfunctions")
        pages = client.get_paginator("get_execution_history").paginate(executionArn=arn)
        return [event for page in pages for event in page["events"]]


def _memory_gb() -> float:
    """Return the memory of the functions of the state machine, in GB."""
    settings = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]
    return float(settings["memory_mb"]["import_chunk"] / 1024)


def _task_seconds(history: Sequence[Mapping[str, Any]]) -> float:
    """Add up the seconds from the scheduling of each invocation to its end."""
    seconds, scheduled = 0.0, None
    for event in history:
        if event["type"] == "TaskScheduled":
            scheduled = event["timestamp"]
        elif event["type"] in ("TaskSucceeded", "TaskFailed", "TaskTimedOut") and scheduled:
            seconds += (event["timestamp"] - scheduled).total_seconds()
            scheduled = None
    return seconds
