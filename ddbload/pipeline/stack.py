"""The deployed stack: found by its name, known by its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddbload.aws_http.calls import ATTEMPTS, call
from ddbload.aws_http.failures import Meaning
from ddbload.errors import StackNotFound

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

DEFAULT_STACK = "ddbload"

STATE_MACHINE = "StateMachineArn"
WORK_BUCKET = "WorkBucketName"
INBOX_BUCKET = "InboxBucketName"


@dataclass(frozen=True, slots=True)
class Stack:
    """A deployed stack, as the command line needs to know it."""

    name: str
    state_machine: str
    work_bucket: str
    inbox_bucket: str


def find_stack(client: CloudFormationClient, name: str, *, attempts: int = ATTEMPTS) -> Stack:
    """Look it up. Raises `StackNotFound`, and AWS's errors."""
    where = client.meta.region_name

    def absent(meant: Meaning) -> Exception | None:
        # CloudFormation has no code of its own for it.
        if meant.code == "ValidationError" and "does not exist" in meant.text:
            return StackNotFound(
                f"there is no stack {name} in {where}: deploy it, or name it with --stack"
            )
        return None

    answer: Any = call(
        lambda: client.describe_stacks(StackName=name),
        f"looking up stack {name}",
        expected=absent,
        attempts=attempts,
    )
    try:
        given = {each["OutputKey"]: each["OutputValue"] for each in answer["Stacks"][0]["Outputs"]}
        return Stack(name, given[STATE_MACHINE], given[WORK_BUCKET], given[INBOX_BUCKET])
    except (LookupError, TypeError):
        raise StackNotFound(
            f"stack {name} in {where} is none of ddbload's, or not deployed to its end: it lacks"
            f" an output {STATE_MACHINE}, {WORK_BUCKET} or {INBOX_BUCKET}"
        ) from None
