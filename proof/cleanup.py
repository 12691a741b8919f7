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
from typing import Any, TypeAlias

from botocore.exceptions import ClientError

from proof.account import PREFIX, TAG, Account, Record, require

POLICY = "ddbload-proof"
"""Inline policy by which the proof takes a permission away from a role."""
TOOLKIT = "-toolkit"
"""End of the name of the stack that the bootstrapping makes."""
_NAMES = re.compile(
    r"(?:/ddbload/|/aws/vendedlogs/states/)?ddbload-proof-([0-9a-f]{8})(?![0-9a-f])"
    # The bucket of the bootstrapping, which the CDK names.
    r"|cdk-p([0-9a-f]{8})-assets-\d+-"
)
_ORDER = ("stack", "rule", "queue", "table", "log_group", "bucket")
_ROUNDS, _ROUND_SECONDS = 8, 15.0
"""Rounds in which all that is found is removed: some of it may be in use at first."""
_STACK_SECONDS = 1800.0
_GONE = re.compile("NoSuchBucket|NotFound|NonExistentQueue|QueueDoesNotExist")
"""Errors for what is removed already, with its stack for example."""
_ABSENT = "ABSENT"
_Named: TypeAlias = Iterator[tuple[str, Callable[[], Any]]]


@dataclass(frozen=True, slots=True)
class Found:
    """Something that a proof has made."""

    kind: str
    name: str
    proof: str

    @property
    def order(self) -> tuple[bool, int]:
        """Place in the removal, the bootstrapping after everything else."""
        is_last = self.name.endswith(TOOLKIT) or self.name.startswith("cdk-")
        return is_last, _ORDER.index(self.kind)

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')} {self.name}"


class CleanUp:
    """Removal of what proofs have made: of one proof, or of all."""

    def __init__(
        self, account: Account, records: Sequence[Record], proof: str | None = None
    ) -> None:
        self._account, self._records, self._proof = account, records, proof
        self._client = account.client
        self.refused: dict[Found, str] = {}
        """What could not be removed in the last round, and why."""
        self.pending: list[Found] = []
        """What was found last and is not removed yet."""
        self.unclaimed: list[Found] = []
        """What is named like a proof's, and has neither its tag nor a record: it is left alone."""
        self.unlisted: dict[str, str] = {}
        """Kinds that could not be listed, and why."""
        self._looked = False

    @property
    def left(self) -> list[str]:
        """What may be there still: known things, and kinds that could not be listed."""
        unlisted = [f"any {kind}: {why}" for kind, why in self.unlisted.items()]
        unseen = [] if self._looked else ["whatever the proof has made: it was not listed yet"]
        known = [f"{each}{_reason(self.refused.get(each))}" for each in self.pending]
        return [*known, *unlisted, *unseen]

    def find(self) -> list[Found]:
        """List what is there, in the order in which it is removed."""
        claimed: list[Found] = []
        self.unclaimed, self.unlisted = [], {}
        recorded = {record.proof for record in self._records}
        for kind in _ORDER:
            try:
                for name, read_tags in getattr(self, f"_{kind}s")():
                    match = _NAMES.match(name)
                    if match is None or self._proof not in (None, match[1] or match[2]):
                        continue
                    found = Found(kind, name, match[1] or match[2])
                    is_ours = found.proof in recorded or _tag(read_tags) == found.proof
                    (claimed if is_ours else self.unclaimed).append(found)
            except Exception as error:  # noqa: BLE001 - other kinds are removed all the same
                self.unlisted[kind] = str(error)
        self._looked = True
        return sorted(claimed, key=lambda each: each.order)

    def remove(self, show: Callable[[str], object]) -> None:
        """Remove everything, and look again; `left` says what is left."""
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
                show(f"removing {each}")
                self._try(each)
        self.pending = self.find()
        for record in self._records:
            if not self.left and self._proof in (None, record.proof):
                record.path.unlink(missing_ok=True)

    def _try(self, found: Found) -> None:
        if found.order[0] and any(each.kind == "stack" for each in self.refused):
            # The role by which CloudFormation removes the stack is in the bootstrapping.
            return
        try:
            getattr(self, f"_remove_{found.kind}")(found.name)
        except Exception as error:  # noqa: BLE001 - everything else is removed all the same
            if not _GONE.search(str(error)):
                self.refused[found] = str(error)
                return
        self.pending.remove(found)

    # What may be a proof's, by kind: its name, and a function that reads its tags.

    def _stacks(self) -> _Named:
        for stack in _items(self._client("cloudformation"), "describe_stacks", "Stacks"):
            yield stack["StackName"], partial(stack.get, "Tags", [])

    def _rules(self) -> _Named:
        client = self._client("events")
        for rule in _items(client, "list_rules", "Rules", NamePrefix=PREFIX):
            yield rule["Name"], partial(client.list_tags_for_resource, ResourceARN=rule["Arn"])

    def _queues(self) -> _Named:
        client = self._client("sqs")
        for url in _items(client, "list_queues", "QueueUrls", QueueNamePrefix=PREFIX):
            yield url.rpartition("/")[2], partial(client.list_queue_tags, QueueUrl=url)

    def _tables(self) -> _Named:
        for name in _items(self._client("dynamodb"), "list_tables", "TableNames"):
            yield name, partial(self._table_tags, name)

    def _log_groups(self) -> _Named:
        client = self._client("logs")
        for prefix in (f"/ddbload/{PREFIX}", f"/aws/vendedlogs/states/{PREFIX}"):
            request = {"logGroupNamePrefix": prefix}
            for group in _items(client, "describe_log_groups", "logGroups", **request):
                # A function that ended late may have made it again, without the stack's tags.
                match = _NAMES.match(group["logGroupName"])
                yield group["logGroupName"], partial(dict, Tags={TAG: match and match[1]})

    def _buckets(self) -> _Named:
        client = self._client("s3")
        for bucket in client.list_buckets()["Buckets"]:
            if bucket.get("BucketRegion") in (None, self._account.region):
                yield bucket["Name"], partial(client.get_bucket_tagging, Bucket=bucket["Name"])

    def _table_tags(self, name: str) -> Any:
        client = self._client("dynamodb")
        arn = client.describe_table(TableName=name)["Table"]["TableArn"]
        return client.list_tags_of_resource(ResourceArn=arn)

    def _remove_stack(self, name: str) -> None:
        """Stop what the stack does, and delete it. Raises `ProofError`."""
        client, until = self._client("cloudformation"), self._account.until
        settled = partial(self._settled_status, name)
        # A creation that goes on would make more after its deletion was asked for.
        if until(settled, f"stack {name}", _STACK_SECONDS) == _ABSENT:
            return
        resources = _items(client, "list_stack_resources", "StackResourceSummaries", StackName=name)
        for each in list(resources):
            with suppress(ClientError):
                self._quiet(each["ResourceType"], each.get("PhysicalResourceId") or "")
        client.delete_stack(StackName=name)
        status = until(settled, f"removing stack {name}", _STACK_SECONDS)
        require(status == _ABSENT, f"the stack is {status}")

    def _settled_status(self, name: str) -> str | None:
        """Return the status of a stack unless an operation on it goes on."""
        try:
            answer = self._client("cloudformation").describe_stacks(StackName=name)
        except ClientError as error:
            if "does not exist" in str(error):
                return _ABSENT
            raise
        status = str(answer["Stacks"][0]["StackStatus"])
        going = status.endswith(("_IN_PROGRESS", "_PENDING")) and "REVIEW" not in status
        return None if going else status

    def _quiet(self, kind: str, name: str) -> None:
        """Keep a resource of a stack from doing, or keeping, more."""
        client = self._client
        if kind == "AWS::Lambda::EventSourceMapping":
            client("lambda").update_event_source_mapping(UUID=name, Enabled=False)
        elif kind == "AWS::StepFunctions::StateMachine":
            machine = {"stateMachineArn": name, "statusFilter": "RUNNING"}
            states = client("stepfunctions")
            for each in list(_items(states, "list_executions", "executions", **machine)):
                states.stop_execution(executionArn=each["executionArn"])
        elif kind == "AWS::IAM::Role":
            # CloudFormation does not delete a role with a policy that it does not know.
            client("iam").delete_role_policy(RoleName=name, PolicyName=POLICY)
        elif kind == "AWS::S3::Bucket" and self._account.emulated:
            # The stack leaves its buckets. On AWS they have its tags.
            match = _NAMES.match(name)
            tags = [{"Key": TAG, "Value": match and (match[1] or match[2])}]
            client("s3").put_bucket_tagging(Bucket=name, Tagging={"TagSet": tags})

    def _remove_rule(self, name: str) -> None:
        client = self._client("events")
        targets = client.list_targets_by_rule(Rule=name)["Targets"]
        if targets:
            client.remove_targets(Rule=name, Ids=[each["Id"] for each in targets])
        client.delete_rule(Name=name)

    def _remove_queue(self, name: str) -> None:
        """Delete a queue with its messages."""
        client = self._client("sqs")
        client.delete_queue(QueueUrl=client.get_queue_url(QueueName=name)["QueueUrl"])

    def _remove_table(self, name: str) -> None:
        client = self._client("dynamodb")
        # A table that is being made cannot be deleted yet.
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2})
        client.delete_table(TableName=name)
        client.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig={"Delay": 1})

    def _remove_log_group(self, name: str) -> None:
        self._client("logs").delete_log_group(logGroupName=name)

    def _remove_bucket(self, name: str) -> None:
        """Delete all versions, a thousand a request, then the bucket. Raises `ProofError`."""
        client = self._client("s3")
        for page in client.get_paginator("list_object_versions").paginate(Bucket=name):
            named = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in named]
            if objects:
                request = {"Objects": objects, "Quiet": True}
                errors = client.delete_objects(Bucket=name, Delete=request).get("Errors")
                require(not errors, f"objects stay: {errors}")
        client.delete_bucket(Bucket=name)


def _reason(why: str | None) -> str:
    return "" if why is None else f" ({why})"


def _tag(read: Callable[[], Any]) -> str | None:
    """Return the value of the proof's tag, in whichever form a service answers."""
    try:
        answer = read()
    except ClientError:
        # It is gone by now, or has no tags.
        return None
    if isinstance(answer, dict):
        known = (answer.get(name) for name in ("Tags", "TagSet", "tags"))
        answer = next((tags for tags in known if tags is not None), [])
    pairs = answer if isinstance(answer, dict) else {tag["Key"]: tag["Value"] for tag in answer}
    return pairs.get(TAG)


def _items(client: Any, call: str, field: str, **request: Any) -> Iterator[Any]:
    """Yield the items of all pages of an answer."""
    if not client.can_paginate(call):
        yield from getattr(client, call)(**request).get(field, ())
        return
    for page in client.get_paginator(call).paginate(**request):
        yield from page.get(field, ())
