"""Start and describe executions of the deployed state machine; start one for each uploaded object.

The upload queue delivers at least once, in no order. A message is deleted from it unless its id is
in the answer for its batch; then it is delivered again after the queue's visibility timeout, and is
a dead letter after the queue's maxReceiveCount. Source: AWS Lambda Developer Guide, "Handling
errors for an SQS event source in Lambda".

Uploads to one key are loaded one after another, in the order in which they were made. S3's events
come in any order and more than once, and executions start in any order. So the order is kept in the
ledger's store. `claim_upload` enters each upload that gets a run, and refuses one that is older
than another. `wait_for_turn` lets a run begin when the runs of older uploads have ended, and
refuses it if a newer one began meanwhile. Of two runs that want to begin, the second sees the first
(`change_state`); an older one is seen running, or sees that it is too late.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries, find_with_retries
from ddbload.context import Context
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import DONE, ExecutionAttempt, Failure
from ddbload.contracts.states import PreflightTask
from ddbload.contracts.upload_rule import Upload, UploadClaim, UploadOrder, UploadRule, is_sequencer
from ddbload.errors import (
    DdbloadError,
    ExecutionExists,
    InvalidPayload,
    RequestRefused,
    RunNotFound,
    ServiceUnavailable,
    UploadSuperseded,
    unexpected,
)
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_state import Ending
from ddbload.ledger.store import Store, change_state

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

EXECUTION_RUNNING, EXECUTION_SUCCEEDED = "RUNNING", "SUCCEEDED"
EXECUTION_ABORTED, EXECUTION_TIMED_OUT = "ABORTED", "TIMED_OUT"
_DATA_LIMIT = "States.DataLimitExceeded"
MAX_INPUT_BYTES = 220_000
"""Most bytes of a payload: a state may have 262,144, of which a caught error takes 32,768."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Description of an execution by Step Functions."""

    arn: str
    status: str
    """RUNNING, SUCCEEDED, FAILED, TIMED_OUT or ABORTED."""
    input: Any
    failure: Failure | None
    """Error of a failed execution; None while it runs and if it succeeded."""
    seconds: float
    """Seconds from the start to the end, or until now."""
    started: float = 0.0
    """Seconds since the epoch."""
    redrives: int = 0
    """Number of times that the execution was redriven."""

    @property
    def running(self) -> bool:
        """True while the execution may still import rows."""
        return self.status in (EXECUTION_RUNNING, "PENDING_REDRIVE")

    @property
    def ending(self) -> Ending | None:
        """End of the execution; None while it runs."""
        if self.running:
            return None
        return Ending(
            failure=self.failure,
            aborted=self.status == EXECUTION_ABORTED,
            timed_out=self.status == EXECUTION_TIMED_OUT,
            attempt=ExecutionAttempt(self.arn, self.redrives),
            began=self.started,
            seconds=self.seconds,
        )


def check_input(payload: object) -> None:
    """Raise `InvalidPayload` for the input of an execution that could not carry an error with it.

    An execution that was started otherwise than by ddbload may have up to 262,144 bytes.
    """
    text = json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
    _check_size(len(text.encode(errors="surrogatepass")))


def _check_size(size: int) -> None:
    if size > MAX_INPUT_BYTES:
        raise InvalidPayload(
            f"the payload has {size:,} bytes, and an execution takes {MAX_INPUT_BYTES:,} of"
            " ddbload's: name fewer columns or types"
        )


@dataclass(frozen=True, slots=True)
class Executions:
    """Executions of one state machine."""

    client: SFNClient
    machine: str
    retry_policy: RetryPolicy = DEFAULT_POLICY

    @classmethod
    def beside(cls, arn: str, client: SFNClient, *, retry_policy: RetryPolicy) -> Self:
        """Return the executions of the machine that an execution belongs to."""
        machine = arn.replace(":execution:", ":stateMachine:", 1).rpartition(":")[0]
        return cls(client, machine, retry_policy=retry_policy)

    def start(self, name: str, payload: Mapping[str, Any]) -> str:
        """Start an execution and return its ARN; that of a running one with this name and payload.

        Raises `ExecutionExists`: Step Functions keeps a name for 90 days after the execution.
        """
        text = json.dumps(payload, separators=(",", ":"))
        _check_size(len(text))

        def taken(failure: AwsFailure) -> Exception | None:
            if failure.code == "ExecutionAlreadyExists":
                return ExecutionExists(f"an execution {name} was started before")
            return None

        answer: Any = call_with_retries(
            lambda: self.client.start_execution(
                stateMachineArn=self.machine, name=name, input=text
            ),
            f"starting execution {name}",
            expected=taken,
            policy=self.retry_policy,
        )
        return str(answer["executionArn"])

    def newest(self, most: int, status: str | None = None) -> dict[str, str]:
        """Return the newest executions, at most 1,000, or those of one status: ARNs and names."""
        more: Any = {} if status is None else {"statusFilter": status}
        answer: Any = call_with_retries(
            lambda: self.client.list_executions(
                stateMachineArn=self.machine, maxResults=min(most, 1000), **more
            ),
            "listing executions",
            policy=self.retry_policy,
        )
        return {each["executionArn"]: each["name"] for each in answer["executions"]}

    def stop(self, arn: str, error: str, cause: str) -> None:
        """Stop an execution; do nothing if it has ended. Raises `AccessDenied`."""
        call_with_retries(
            lambda: self.client.stop_execution(executionArn=arn, error=error, cause=cause),
            f"stopping execution {arn}",
            policy=self.retry_policy,
        )

    def arn_of(self, name: str) -> str:
        """Return the ARN that an execution with this name has."""
        return f"{self.machine.replace(':stateMachine:', ':execution:', 1)}:{name}"

    def describe(self, arn: str) -> Execution:
        """Describe an execution. Raises `RunNotFound`."""
        execution = self.find(arn)
        if execution is None:
            raise RunNotFound(f"there is no execution {arn}")
        return execution

    def find(self, arn: str) -> Execution | None:
        """Describe an execution; None if Step Functions does not know it.

        Step Functions forgets an execution 90 days after its end, and may not know it right after
        its start.
        """
        answer: Any = find_with_retries(
            lambda: self.client.describe_execution(executionArn=arn),
            "asking after the execution",
            lambda failure: failure.code in ("ExecutionDoesNotExist", "InvalidArn"),
            policy=self.retry_policy,
        )
        if answer is None:
            return None
        started = answer["startDate"].timestamp()
        ended = answer["stopDate"].timestamp() if answer.get("stopDate") else time.time()
        try:
            payload = json.loads(answer.get("input") or "null")
        except (ValueError, RecursionError):
            raise RequestRefused(f"execution {arn}: its input is no JSON") from None
        return Execution(
            arn=arn,
            status=answer["status"],
            input=payload,
            failure=_failure(answer),
            seconds=max(0.0, ended - started),
            started=started,
            redrives=answer.get("redriveCount", 0),
        )


def _failure(answer: Mapping[str, Any]) -> Failure | None:
    status = answer["status"]
    if status in (EXECUTION_RUNNING, EXECUTION_SUCCEEDED, "PENDING_REDRIVE"):
        return None
    hint = {
        EXECUTION_ABORTED: "somebody stopped the execution; resume takes the run up again",
        EXECUTION_TIMED_OUT: "the execution took longer than it may; resume takes the run up again",
    }
    error = answer.get("error") or status.title().replace("_", "")
    cause = answer.get("cause") or hint.get(status)
    if error == _DATA_LIMIT:
        # Step Functions lets no state catch it.
        cause = (
            f"the execution's state would have more than 262,144 bytes: its input has"
            f" {len((answer.get('input') or '').encode()):,}, and may have {MAX_INPUT_BYTES:,},"
            " because ddbload adds to it; name fewer columns or types"
        )
    return Failure.caught({"Error": error, "Cause": cause})


STARTED = "started"
STARTED_BEFORE = "started before"
LOADED_BEFORE = "loaded before"
NOT_MAPPED = "not mapped"
OF_AN_EXPORT = "part of an export"
OLDER = "older than loaded"


def handle_batch(
    batch: dict[str, Any],
    start: Callable[[object], object],
    *,
    must_end: Callable[[], bool],
    failed: Callable[[str, DdbloadError], None],
) -> dict[str, Any]:
    """Call `start` with the event of each message, and return Lambda's answer for the batch.

    The answer names the messages to deliver again: those for which `start` raised an error, passed
    to `failed`, and those not begun when `must_end` became true. Without that limit a function that
    AWS throttles would be killed, and all its messages delivered again. A message that is not an
    event is treated like any other failure: the queue alone decides what is a dead letter.
    """
    again = []
    for record in _records(batch):
        message = record["messageId"]
        try:
            if must_end():
                raise ServiceUnavailable("the function's time is over; the queue delivers it again")
            start(_event(record["body"]))
        except DdbloadError as error:
            failed(message, error)
        except Exception as error:  # noqa: BLE001 - the other messages of the batch go on
            failed(message, unexpected(error, "starting a run for an upload"))
        else:
            continue
        again.append({"itemIdentifier": message})
    return {"batchItemFailures": again}


def _records(batch: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages of a batch. Raises `InvalidPayload` if it is not one of SQS's."""
    records = batch["Records"]
    if not isinstance(records, list) or not all(
        isinstance(each, Mapping) and isinstance(each.get("messageId"), str) for each in records
    ):
        raise InvalidPayload("the event is not a batch of messages, as SQS sends them")
    return records


def _event(body: str) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidPayload("the message is not JSON, so it is not an upload's event") from None


def on_upload(
    event: object, context: Context, rules: Sequence[UploadRule], executions: Executions
) -> dict[str, Any]:
    """Start a run for an upload, unless its object version started one before.

    The ledger tells whether the version started a run. The execution's name only prevents two
    runs of simultaneous deliveries. A failed run is not started again: `resume` continues it.
    An upload that is older than another that got a run starts none. Returns the outcome, the run's
    id and the execution's ARN.
    """
    upload = Upload.of(event)
    covering = [rule for rule in rules if rule.covers(upload)]
    if not covering or upload.key.endswith("/"):
        # A key that ends in a slash is a folder made by the S3 console.
        return {"outcome": NOT_MAPPED, "run": None, "execution": None}
    rule = max(covering, key=lambda each: (each.bucket is not None, len(each.prefix)))
    payload = rule.payload(upload)
    if payload is None:
        return {"outcome": OF_AN_EXPORT, "run": None, "execution": None}
    ledger = context.ledger(upload.run)
    is_new, newer = claim_upload(upload, context)
    # A run has no record before its upload was claimed.
    if not is_new and ledger.find_record() is not None:
        return {"outcome": _outcome(ledger), "run": upload.run, "execution": None}
    if newer is not None:
        return {"outcome": OLDER, "run": upload.run, "execution": None}
    try:
        started = executions.start(upload.run, payload)
    except ExecutionExists:
        return {"outcome": _outcome(ledger), "run": upload.run, "execution": None}
    return {"outcome": STARTED, "run": upload.run, "execution": started}


def _outcome(ledger: Ledger) -> str:
    report = ledger.find_report()
    loaded = report is not None and report.status in DONE
    return LOADED_BEFORE if loaded else STARTED_BEFORE


# Turns of one key.


FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5, 300
"""Seconds until a waiting run looks again; doubled each time. An execution's history has room for
2,700 looks, which is nine days."""
CLAIM_SECONDS = 120.0
"""Seconds after its claim for which a run may start although Step Functions does not know it."""


def claim_upload(upload: Upload, context: Context) -> tuple[bool, UploadClaim | None]:
    """Enter an upload that shall be loaded.

    Returns true if it was entered now, and the newer upload that makes it too late, if any. An
    upload that was entered before stays. Without a sequencer uploads have no order.
    """
    if upload.sequencer is None or not is_sequencer(upload.sequencer):
        return False, None
    is_new = False
    claim = UploadClaim(upload.sequencer, upload.run, context.now())
    newer: UploadClaim | None = None

    def change(order: UploadOrder) -> UploadOrder | None:
        nonlocal is_new, newer
        is_new, newer = False, None
        if order.has(claim.run) and order.begun_after(claim) is None:
            return None
        newest = max(order.claims, key=lambda each: each.rank, default=claim)
        is_new = newest.rank <= claim.rank
        if is_new:
            return replace(order, waiting=(*order.waiting, claim))
        newer = newest
        return None

    _change(context.store, upload.bucket, upload.key, change)
    return is_new, newer


def wait_for_turn(
    task: PreflightTask, payload: Payload, run: str, context: Context
) -> PreflightTask | None:
    """Let a run of an upload begin to load, or return its task with the seconds to wait.

    Raises `UploadSuperseded` if a newer upload of the key has begun. A run that is forced, and one
    of a source that was not uploaded, does not wait.
    """
    source = payload.source
    if source.sequencer is None or source.key is None or payload.force:
        return None
    if not is_sequencer(source.sequencer):
        raise InvalidPayload("'source.sequencer' must be a hexadecimal number, as S3 gives it")
    bucket, key = source.bucket or "", source.key
    claim = UploadClaim(source.sequencer, run, context.now())
    must_wait = False

    def change(order: UploadOrder) -> UploadOrder | None:
        nonlocal must_wait
        must_wait = False
        newer = order.begun_after(claim)
        if newer is not None:
            raise UploadSuperseded(
                f"a newer upload of s3://{bucket}/{key} was loaded, or is being loaded, by run"
                f" {newer.run}: this older version is not loaded over it ('run.force' in a payload"
                " would do so)"
            )
        if order.loaded is not None and order.loaded.run == run:
            is_known = order.execution == task.execution
            return None if is_known else order.with_loaded(claim, task.execution)
        must_wait = task.execution is not None and _is_older_alive(
            order, claim, task.execution, context
        )
        return None if must_wait else order.with_loaded(claim, task.execution)

    _change(context.store, bucket, key, change)
    if not must_wait:
        return None
    wait = FIRST_WAIT_SECONDS if task.wait is None else 2 * task.wait
    return replace(task, wait=min(wait, LONGEST_WAIT_SECONDS))


def _is_older_alive(
    order: UploadOrder, claim: UploadClaim, execution: str, context: Context
) -> bool:
    """Tell whether the run of an older upload is at work, or may still start."""
    executions = Executions.beside(
        execution, context.clients.stepfunctions, retry_policy=context.retry_policy
    )
    if order.execution is not None:
        loading = executions.find(order.execution)
        if loading is not None and loading.running:
            return True
    for older in order.waiting:
        if older.rank >= claim.rank or older.run == claim.run:
            continue
        found = executions.find(executions.arn_of(older.run))
        if found is None and context.now() - older.at < CLAIM_SECONDS:
            return True
        if found is not None and found.running:
            return True
    return False


def _change(
    store: Store, bucket: str, key: str, change: Callable[[UploadOrder], UploadOrder | None]
) -> None:
    """Replace the state of a key by what `change` makes of it, unless it returns None."""
    name = f"uploads/{hashlib.sha256(f'{bucket}/{key}'.encode()).hexdigest()[:40]}.json"

    def change_known(order: UploadOrder | None) -> UploadOrder | None:
        return change(UploadOrder(bucket, key) if order is None else order)

    change_state(
        store, name, UploadOrder, change_known, unless="an upload of its key is being loaded"
    )
