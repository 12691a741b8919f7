"""Find and remove what proofs have made in an account and region.

What belongs to a proof has its id in its name, and its tag, or a record on this machine. The stack
comes first, since its functions write into the rest; the bootstrapping comes last, since
CloudFormation removes the stack with its role.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from proof.account import (
    BUCKET,
    LOG_GROUP,
    PREFIX,
    QUEUE,
    RULE,
    STACK,
    TABLE,
    TAG,
    Account,
    ProofError,
    Record,
    error_code,
)

NAMES = re.compile(r"(?:/ddbload/|/aws/vendedlogs/states/)?ddbload-proof-([0-9a-f]{8})(?![0-9a-f])")
"""Beginning of names that the proof, or CloudFormation for it, has given."""
ASSETS = re.compile(r"cdk-p([0-9a-f]{8})-assets-\d+-")
"""Bucket of the proof's own bootstrapping."""
POLICY = "ddbload-proof"
"""Inline policy by which the proof takes a permission away from a role."""
TOOLKIT = "-toolkit"
"""End of the name of the stack that the bootstrapping makes."""
GONE = "gone"
"""Status of a stack that does not exist."""
_ROUNDS = 8
"""Rounds in which all that is found is removed: some of it may be in use at first."""
_ROUND_SECONDS = 15.0
_STACK_SECONDS = 1800.0
_ORDER = (STACK, RULE, QUEUE, TABLE, LOG_GROUP, BUCKET)
_GONE = (
    *("NoSuchBucket", "ResourceNotFoundException"),
    *("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"),
)
"""Codes of AWS for what is removed already, with its stack for example."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something that a proof has made."""

    kind: str
    name: str
    proof: str

    @property
    def is_last(self) -> bool:
        """True for the bootstrapping, which is removed after everything else."""
        return self.name.endswith(TOOLKIT) or ASSETS.match(self.name) is not None

    @property
    def order(self) -> tuple[bool, int]:
        return self.is_last, _ORDER.index(self.kind)


class CleanUp:
    """Removal of what proofs have made: of one proof, or of all."""

    def __init__(
        self, account: Account, records: Sequence[Record], proof: str | None = None
    ) -> None:
        self._account = account
        self._records = records
        self._proof = proof
        self.refused: dict[Found, str] = {}
        """What could not be removed in the last round, and why."""
        self.pending: list[Found] = []
        """What was found last and is not removed yet."""
        self.unclaimed: list[str] = []
        """What is named like a proof's, and has neither its tag nor a record: it is left alone."""

    def find(self) -> list[Found]:
        """List what is there, in the order in which it is removed. Raises AWS's errors."""
        found, self.unclaimed = [], []
        recorded = {record.proof for record in self._records}
        for kind, name, tags in self._named():
            match = NAMES.match(name) or ASSETS.match(name)
            if match is None or self._proof not in (None, match[1]):
                continue
            if match[1] in recorded or self._tag_of(tags) == match[1]:
                found.append(Found(kind, name, match[1]))
            else:
                self.unclaimed.append(f"{kind} {name}")
        return sorted(found, key=lambda each: each.order)

    def remove(self, show: Callable[[str], object]) -> list[Found]:
        """Remove everything, look again, and return what is left. Raises AWS's errors."""
        looked_again = self._account.emulated
        for number in range(_ROUNDS):
            self.pending = self.find()
            if not self.pending and looked_again:
                break
            # Listings are late, and what is in use is free after a while.
            if number or not self.pending:
                looked_again = True
                self._account.pause(_ROUND_SECONDS)
            self.refused = {}
            for each in list(self.pending):
                show(f"removing {each.kind} {each.name}")
                self._try(each)
        left = self.find()
        if not left:
            for record in self._records:
                if self._proof in (None, record.proof):
                    record.path.unlink(missing_ok=True)
        return left

    def _try(self, found: Found) -> None:
        removers = {
            STACK: self._remove_stack,
            RULE: self._remove_rule,
            QUEUE: self._remove_queue,
            TABLE: self._remove_table,
            LOG_GROUP: self._remove_log_group,
            BUCKET: self._remove_bucket,
        }
        if found.is_last and any(each.kind == STACK for each in self.refused):
            # The role by which CloudFormation removes the stack is in the bootstrapping.
            return
        try:
            removers[found.kind](found.name)
        except (ClientError, BotoCoreError, ProofError) as error:
            if error_code(error) not in _GONE:
                self.refused[found] = str(error)
                return
        self.pending.remove(found)

    def _named(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        """Yield kind, name, and a function that reads the tags, of what may be a proof's."""
        client = self._account.client
        for stack in _items(client("cloudformation"), "describe_stacks", "Stacks"):
            yield STACK, stack["StackName"], partial(stack.get, "Tags", [])
        for rule in _items(client("events"), "list_rules", "Rules", NamePrefix=PREFIX):
            yield RULE, rule["Name"], partial(self._rule_tags, rule["Arn"])
        for url in _items(client("sqs"), "list_queues", "QueueUrls", QueueNamePrefix=PREFIX):
            yield QUEUE, url.rpartition("/")[2], partial(self._queue_tags, url)
        for name in _items(client("dynamodb"), "list_tables", "TableNames"):
            yield TABLE, name, partial(self._table_tags, name)
        for prefix in (f"/ddbload/{PREFIX}", f"/aws/vendedlogs/states/{PREFIX}"):
            request = {"logGroupNamePrefix": prefix}
            for group in _items(client("logs"), "describe_log_groups", "logGroups", **request):
                yield LOG_GROUP, group["logGroupName"], partial(self._group_tags, group)
        for bucket in client("s3").list_buckets()["Buckets"]:
            if bucket.get("BucketRegion") in (None, self._account.region):
                yield BUCKET, bucket["Name"], partial(self._bucket_tags, bucket["Name"])

    @staticmethod
    def _tag_of(read: Callable[[], Any]) -> str | None:
        try:
            tags = read()
        except ClientError:
            # It is gone by now, or has no tags.
            return None
        pairs = tags if isinstance(tags, dict) else {each["Key"]: each["Value"] for each in tags}
        value = pairs.get(TAG)
        return None if value is None else str(value)

    def _rule_tags(self, arn: str) -> Any:
        return self._account.client("events").list_tags_for_resource(ResourceARN=arn)["Tags"]

    def _queue_tags(self, url: str) -> Any:
        return self._account.client("sqs").list_queue_tags(QueueUrl=url).get("Tags", {})

    @staticmethod
    def _group_tags(group: Any) -> Any:
        """Take a log group for the proof's by its name, which has that of the stack in it."""
        match = NAMES.match(group["logGroupName"])
        return {TAG: match and match[1]}

    def _table_tags(self, name: str) -> Any:
        client = self._account.client("dynamodb")
        arn = client.describe_table(TableName=name)["Table"]["TableArn"]
        return client.list_tags_of_resource(ResourceArn=arn)["Tags"]

    def _bucket_tags(self, name: str) -> Any:
        return self._account.client("s3").get_bucket_tagging(Bucket=name)["TagSet"]

    def _remove_stack(self, name: str) -> None:
        """Stop what the stack does, and delete it. Raises `ProofError`."""
        client = self._account.client("cloudformation")
        # A creation that goes on would make more after its deletion was asked for.
        stack = self._account.until(
            lambda: self._settled_stack(name), f"stack {name}", _STACK_SECONDS
        )
        if stack["StackStatus"] == GONE:
            return
        resources = list(
            _items(client, "list_stack_resources", "StackResourceSummaries", StackName=name)
        )
        for each in resources:
            self._quiet(each["ResourceType"], each.get("PhysicalResourceId") or "")
        client.delete_stack(StackName=name)
        ended = self._account.until(
            lambda: self._settled_stack(name), f"removing stack {name}", _STACK_SECONDS
        )
        if ended["StackStatus"] != GONE:
            why = ended.get("StackStatusReason", ended["StackStatus"])
            raise ProofError(f"stack {name} could not be removed: {why}")

    def _settled_stack(self, name: str) -> dict[str, Any] | None:
        """Return the stack unless an operation on it goes on."""
        try:
            answer = self._account.client("cloudformation").describe_stacks(StackName=name)
        except ClientError as error:
            if error_code(error) == "ValidationError":
                return {"StackStatus": GONE}
            raise
        stack: dict[str, Any] = answer["Stacks"][0]
        status = stack["StackStatus"]
        going = status.endswith("IN_PROGRESS") and status != "REVIEW_IN_PROGRESS"
        return None if going else stack

    def _quiet(self, kind: str, name: str) -> None:
        """Keep a resource of a stack from doing, or keeping, more. Best effort."""
        client = self._account.client
        with suppress(ClientError):
            if kind == "AWS::Lambda::EventSourceMapping":
                client("lambda").update_event_source_mapping(UUID=name, Enabled=False)
            elif kind == "AWS::StepFunctions::StateMachine":
                machine = {"stateMachineArn": name, "statusFilter": "RUNNING"}
                running = _items(
                    client("stepfunctions"), "list_executions", "executions", **machine
                )
                for each in list(running):
                    with suppress(ClientError):
                        client("stepfunctions").stop_execution(executionArn=each["executionArn"])
            elif kind == "AWS::IAM::Role":
                # CloudFormation does not delete a role with a policy that it does not know.
                client("iam").delete_role_policy(RoleName=name, PolicyName=POLICY)
            elif kind == "AWS::S3::Bucket":
                # The stack leaves its buckets. On AWS they have its tags.
                match = NAMES.match(name) or ASSETS.match(name)
                if self._account.emulated and match is not None:
                    tags = {"TagSet": [{"Key": TAG, "Value": match[1]}]}
                    client("s3").put_bucket_tagging(Bucket=name, Tagging=tags)

    def _remove_rule(self, name: str) -> None:
        client = self._account.client("events")
        targets = client.list_targets_by_rule(Rule=name)["Targets"]
        if targets:
            client.remove_targets(Rule=name, Ids=[each["Id"] for each in targets])
        client.delete_rule(Name=name)

    def _remove_queue(self, name: str) -> None:
        """Delete a queue with its messages."""
        client = self._account.client("sqs")
        client.delete_queue(QueueUrl=client.get_queue_url(QueueName=name)["QueueUrl"])

    def _remove_table(self, name: str) -> None:
        client = self._account.client("dynamodb")
        # A table that is being made cannot be deleted yet.
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2})
        client.delete_table(TableName=name)
        client.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig={"Delay": 1})

    def _remove_log_group(self, name: str) -> None:
        self._account.client("logs").delete_log_group(logGroupName=name)

    def _remove_bucket(self, name: str) -> None:
        """Delete all versions, a thousand a request, then the bucket. Raises `ProofError`."""
        client = self._account.client("s3")
        for page in client.get_paginator("list_object_versions").paginate(Bucket=name):
            named = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in named]
            if objects:
                done = client.delete_objects(
                    Bucket=name, Delete={"Objects": objects, "Quiet": True}
                )
                if done.get("Errors"):
                    raise ProofError(f"bucket {name}: {done['Errors'][0]['Message']}")
        client.delete_bucket(Bucket=name)


def _items(client: Any, call: str, field: str, **request: Any) -> Iterator[Any]:
    """Yield the items of all pages of an answer."""
    if not client.can_paginate(call):
        yield from getattr(client, call)(**request).get(field, ())
        return
    for page in client.get_paginator(call).paginate(**request):
        yield from page.get(field, ())
