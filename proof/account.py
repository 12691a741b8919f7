"""The account, and what the proof makes in it: recorded first, made then, and tagged.

Names of all that is made begin with `ddbload-proof-` and the proof's id, except the bucket of its
own bootstrapping, whose name the CDK gives. All have the tag `ddbload-proof` with the id.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from ddbload.contracts.states import EVENT_SOURCE, RUN_COMPLETED

TAG = "ddbload-proof"
PREFIX = "ddbload-proof-"
STACK, BUCKET, TABLE, QUEUE, RULE = "stack", "bucket", "table", "queue", "rule"
LOG_GROUP, ACCOUNT = "log group", "account"


class ProofError(Exception):
    """Error that ends a part, or the proof, with a sentence for its user."""


class Account:
    """Account and region of the environment's credentials. Raises `ProofError`, AWS's errors."""

    def __init__(self) -> None:
        session = boto3.Session()
        if not session.region_name:
            raise ProofError("no region: set AWS_REGION, or a profile that has one")
        if session.get_credentials() is None:
            raise ProofError("no AWS credentials in the environment: set AWS_PROFILE, or keys")
        self.region: str = session.region_name
        config = Config(retries={"mode": "standard", "max_attempts": 6}, max_pool_connections=20)
        self.client: Callable[[str], Any] = cache(
            lambda service: session.client(service, config=config)
        )
        identity = self.client("sts").get_caller_identity()
        self.number: str = identity["Account"]
        self.partition: str = identity["Arn"].split(":")[1]

    @property
    def place(self) -> str:
        """Account and region, as texts and records name them."""
        return f"account {self.number}, {self.region}"

    @cached_property
    def emulated(self) -> bool:
        """True if the endpoint is on this machine."""
        host = urlsplit(self.client("sts").meta.endpoint_url).hostname
        return host in ("127.0.0.1", "localhost", "::1")

    def until(self, holds: Callable[[], Any], what: str, seconds: float) -> Any:
        """Wait until `holds` returns something true, and return it. Raises `ProofError`."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            if time.monotonic() > deadline:
                raise ProofError(f"{what} took more than {seconds:.0f} seconds")
            self.pause(1.0)
        return found

    def pause(self, seconds: float) -> None:
        """Wait for AWS to do something; the emulation needs a fifth of the time."""
        time.sleep(seconds / 5 if self.emulated else seconds)


class Record:
    """File with the name of everything that a proof has made, written before it is made.

    What is in AWS can be found without it, by its tags.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.proof = path.stem

    @classmethod
    def begin(cls, folder: Path, proof: str, account: Account) -> Record:
        """Make the file of a new proof."""
        folder.mkdir(parents=True, exist_ok=True)
        record = cls(folder / f"{proof}.jsonl")
        record.note(ACCOUNT, account.place)
        return record

    @classmethod
    def all(cls, folder: Path, account: Account) -> list[Record]:
        """Return the records of unfinished proofs in this account and region."""
        records = [cls(path) for path in sorted(folder.glob("*.jsonl"))]
        return [each for each in records if (ACCOUNT, account.place) in each.names()]

    def note(self, kind: str, name: str) -> None:
        """Append a name, and have it on the disk when this returns."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([kind, name]) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def names(self) -> set[tuple[str, str]]:
        """Return the kinds and names; a line that a crash cut short names nothing that exists."""
        found = set()
        for line in self.path.read_text("utf-8").splitlines():
            try:
                kind, name = json.loads(line)
            except ValueError:
                continue
            found.add((kind, name))
        return found


class Maker:
    """Makes what the proof needs beside the stack."""

    def __init__(self, account: Account, record: Record) -> None:
        self._account, self._record = account, record
        self.name = PREFIX + record.proof
        self.tags = [{"Key": TAG, "Value": record.proof}]

    def table(self, suffix: str, *, write_units: int | None = None) -> str:
        """Make a table with the key `id`, on demand unless it gets `write_units`."""
        name, client = f"{self.name}-{suffix}", self._account.client("dynamodb")
        self._record.note(TABLE, name)
        billing: dict[str, Any] = {"BillingMode": "PAY_PER_REQUEST"}
        if write_units is not None:
            units = {"ReadCapacityUnits": 25, "WriteCapacityUnits": write_units}
            billing = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}
        client.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            Tags=self.tags,
            **billing,
        )
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        arn = client.describe_table(TableName=name)["Table"]["TableArn"]
        if not client.list_tags_of_resource(ResourceArn=arn).get("Tags"):
            # dynalite takes no tags at the creation.
            client.tag_resource(ResourceArn=arn, Tags=self.tags)
        return name

    def bucket(self, suffix: str) -> str:
        """Make a bucket. Its name is the account's and random, since all accounts share names."""
        name, client = f"{self.name}-{suffix}-{self._account.number}", self._account.client("s3")
        self._record.note(BUCKET, name)
        region = self._account.region
        # S3 refuses its oldest region as a constraint.
        place: Any = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        client.create_bucket(Bucket=name, **({} if region == "us-east-1" else place))
        client.get_waiter("bucket_exists").wait(Bucket=name)
        client.put_bucket_tagging(Bucket=name, Tagging={"TagSet": self.tags})
        return name

    def events(self) -> str:
        """Make a queue that gets the events of ended runs; return its URL."""
        account, name = self._account, f"{self.name}-events"
        place = f"{account.region}:{account.number}"
        rule = f"arn:{account.partition}:events:{place}:rule/{name}"
        queue = f"arn:{account.partition}:sqs:{place}:{name}"
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "events.amazonaws.com"},
                    "Action": "sqs:SendMessage",
                    "Resource": queue,
                    "Condition": {"ArnEquals": {"aws:SourceArn": rule}},
                }
            ],
        }
        self._record.note(QUEUE, name)
        tags = {each["Key"]: each["Value"] for each in self.tags}
        made = account.client("sqs").create_queue(
            QueueName=name, Attributes={"Policy": json.dumps(policy)}, tags=tags
        )
        self._record.note(RULE, name)
        events = account.client("events")
        pattern = {"source": [EVENT_SOURCE], "detail-type": [RUN_COMPLETED]}
        events.put_rule(Name=name, EventPattern=json.dumps(pattern), Tags=self.tags)
        events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": queue}])
        return str(made["QueueUrl"])


def error_code(error: Exception) -> str:
    """Return the code of AWS's answer; the class of any other error."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return type(error).__name__
