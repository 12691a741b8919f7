"""The account, and what the proof makes in it: recorded first, made then, and tagged.

Names of all that is made have the proof's id. All have the tag `ddbload-proof` with the id.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from ddbload.contracts.states import EVENT_SOURCE, RUN_COMPLETED

TAG = "ddbload-proof"
PREFIX = "ddbload-proof-"


class ProofError(Exception):
    """Error that ends a part, or the proof, with a sentence for its user."""


def require(holds: object, otherwise: str) -> None:
    """Raise `ProofError` unless something holds."""
    if not holds:
        raise ProofError(otherwise)


class Account:
    """Account and region of the environment's credentials. Raises `ProofError`, AWS's errors."""

    def __init__(self) -> None:
        session = boto3.Session()
        require(session.region_name, "no region: set AWS_REGION, or a profile that has one")
        require(session.get_credentials(), "no AWS credentials: set AWS_PROFILE, or keys")
        self.region: str = session.region_name
        config = Config(retries={"mode": "standard", "max_attempts": 6}, max_pool_connections=20)
        self.client: Callable[[str], Any] = cache(
            lambda service: session.client(service, config=config)
        )
        sts = self.client("sts")
        identity = sts.get_caller_identity()
        self.number: str = identity["Account"]
        self.partition: str = identity["Arn"].split(":")[1]
        self.place = f"account {self.number}, {self.region}"
        self.emulated = urlsplit(sts.meta.endpoint_url).hostname in ("127.0.0.1", "localhost")
        """True if the endpoint is on this machine."""

    def until(self, holds: Callable[[], Any], what: str, seconds: float) -> Any:
        """Wait until `holds` returns something true, and return it. Raises `ProofError`."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            require(time.monotonic() < deadline, f"{what} took more than {seconds:.0f} seconds")
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
        self.path, self.proof = path, path.stem

    @classmethod
    def all(cls, folder: Path, account: Account) -> list[Record]:
        """Return the records of unfinished proofs in this account and region."""
        paths = sorted(folder.glob("*.txt"))
        return [cls(path) for path in paths if path.read_text().startswith(f"{account.place}\n")]

    def note(self, text: str) -> None:
        """Append a line, and have it on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())


class Maker:
    """Makes what the proof needs beside the stack."""

    def __init__(self, account: Account, record: Record) -> None:
        self._account, self._record = account, record
        self.name = PREFIX + record.proof
        self.tags = [{"Key": TAG, "Value": record.proof}]

    def table(self, suffix: str, *, units: tuple[int, int] | None = None) -> str:
        """Make a table with the key `id`, on demand or with units for reading and writing."""
        name, client = f"{self.name}-{suffix}", self._account.client("dynamodb")
        self._record.note(f"table {name}")
        billing: dict[str, Any] = {"BillingMode": "PAY_PER_REQUEST"}
        if units is not None:
            names = ("ReadCapacityUnits", "WriteCapacityUnits")
            provisioned = dict(zip(names, units, strict=True))
            billing = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": provisioned}
        made = client.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            Tags=self.tags,
            **billing,
        )
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        if self._account.emulated:
            # dynalite takes no tags at the creation.
            arn = made["TableDescription"]["TableArn"]
            client.tag_resource(ResourceArn=arn, Tags=self.tags)
        return name

    def bucket(self, suffix: str) -> str:
        """Make a bucket. All accounts share names, so its own has the account's number."""
        name, client = f"{self.name}-{suffix}-{self._account.number}", self._account.client("s3")
        self._record.note(f"bucket {name}")
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
        partition, place = account.partition, f"{account.region}:{account.number}"
        rule, queue = (
            f"arn:{partition}:events:{place}:rule/{name}",
            f"arn:{partition}:sqs:{place}:{name}",
        )
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue,
            "Condition": {"ArnEquals": {"aws:SourceArn": rule}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self._record.note(f"queue and rule {name}")
        sqs, events = account.client("sqs"), account.client("events")
        tags = {TAG: self._record.proof}
        made = sqs.create_queue(QueueName=name, Attributes={"Policy": policy}, tags=tags)
        pattern = {"source": [EVENT_SOURCE], "detail-type": [RUN_COMPLETED]}
        events.put_rule(Name=name, EventPattern=json.dumps(pattern), Tags=self.tags)
        events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": queue}])
        return str(made["QueueUrl"])
