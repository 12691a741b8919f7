"""Another project's app: its own tables, buckets and keys, in several stacks, and two pipelines.

`python -m tests.infra.foreign_app FOLDER` synthesizes it, and writes errors.json: the error of each
wrong pipeline of `WRONG`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aws_cdk import App, Environment, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra import ImportPipeline, Network, Source, Upload
from infra.errors import DeploymentError
from tests.infra.synthesis import BUCKET_KEY, KEY

HERE = Environment(region="eu-west-1")
ODD_ID = "films & more"
"""Id with characters that the name of a log group cannot have."""
ISBN = dynamodb.Attribute(name="isbn", type=dynamodb.AttributeType.STRING)


class Data(Stack):
    """Stack with a table and a bucket, both with customer managed keys."""

    def __init__(self, app: App) -> None:
        super().__init__(app, "data", env=HERE)
        self.books = dynamodb.Table(
            self,
            "Books",
            partition_key=ISBN,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=kms.Key(self, "BooksKey"),
        )
        self.incoming = s3.Bucket(
            self,
            "Incoming",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=kms.Key(self, "IncomingKey"),
        )
        # As with event_bridge_enabled=True, without the function that it adds.
        bucket: Any = self.incoming.node.default_child
        bucket.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(
                event_bridge_enabled=True
            )
        )


class Shop(Stack):
    """Stack with two pipelines, which share no table and no bucket."""

    def __init__(self, app: App, data: Data) -> None:
        super().__init__(app, "shop", env=HERE)
        key = kms.Key.from_key_arn(self, "OrdersKey", KEY)
        orders = dynamodb.Table.from_table_attributes(
            self, "Orders", table_name="old-orders", encryption_key=key
        )
        partner = s3.Bucket.from_bucket_name(self, "Partner", "partner-data")
        isolated = ec2.SubnetConfiguration(
            name="Isolated", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED
        )
        vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            subnet_configuration=[isolated],
            restrict_default_security_group=False,
        )
        group = ec2.SecurityGroup(self, "Group", vpc=vpc)
        load = ImportPipeline(
            self,
            "Load",
            tables=[data.books, orders],
            source_buckets=[
                data.incoming,
                Source(bucket=partner, prefix="exports/", owner="210987654321"),
            ],
            uploads=[
                Upload(prefix="books/", table=data.books, types={"year": "N"}),
                Upload(prefix="in/", table=data.books, bucket=data.incoming, where=["year>=2000"]),
                Upload(prefix="orders/", table=orders, once=True),
            ],
            bucket_key=kms.Key(self, "LedgerKey"),
            alarm_topic=sns.Topic(self, "Ops"),
            network=Network(
                vpc.vpc_id,
                [each.subnet_id for each in vpc.isolated_subnets],
                [group.security_group_id],
            ),
            dashboard=True,
            log_key=True,
        )
        load.add_outputs()
        films_key = kms.Key(self, "FilmsKey")
        self.films = dynamodb.TableV2(
            self,
            "Films",
            partition_key=ISBN,
            encryption=dynamodb.TableEncryptionV2.customer_managed_key(films_key),
        )
        self.uploads = s3.Bucket(
            self,
            "FilmUploads",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=films_key.add_alias("films"),
        )
        other = ImportPipeline(
            Construct(self, ODD_ID),
            "Load",
            tables=[self.films],
            source_buckets=[self.uploads],
            uploads=[Upload(prefix="", table=self.films, bucket=self.uploads)],
            kms_keys=[kms.Key.from_key_arn(self, "Spare", BUCKET_KEY)],
            dashboard=True,
            small_bytes=0,
        )
        other.add_outputs("Films")
        other.metric("RowsRejected").create_alarm(
            self, "FilmRejects", threshold=1, evaluation_periods=1
        )


def wrong_pipelines(data: Data) -> dict[str, Callable[[Stack], object]]:
    """Return functions that make a pipeline with a mistake, each in a stack of its own."""
    app = data.node.root
    books, incoming = data.books, data.incoming
    elsewhere = Stack(app, "elsewhere", env=Environment(region="us-east-1"))
    there = dynamodb.Table(elsewhere, "There", table_name="there", partition_key=ISBN)
    events = s3.Bucket(elsewhere, "Events", bucket_name="events-there")

    def make(stack: Stack, **given: Any) -> ImportPipeline:
        return ImportPipeline(stack, "Load", **{"tables": [books], **given})

    def upload(stack: Stack, **given: Any) -> ImportPipeline:
        given = {"prefix": "a/", "table": books, **given}
        return make(stack, source_buckets=[], uploads=[Upload(**given)])

    def alias(stack: Stack) -> ImportPipeline:
        key = kms.Alias.from_alias_name(stack, "Alias", "alias/books")
        return make(stack, kms_keys=[key])

    def by_arn(stack: Stack) -> ImportPipeline:
        arn = "arn:aws:dynamodb:us-east-1:123456789012:table/books"
        return make(stack, tables=[dynamodb.Table.from_table_arn(stack, "Books", arn)])

    def many(stack: Stack) -> ImportPipeline:
        tables = [dynamodb.Table(stack, f"T{n}", partition_key=ISBN) for n in range(40)]
        uploads = [Upload(prefix=f"{n}/", table=each) for n, each in enumerate(tables)]
        return make(stack, tables=tables, uploads=uploads)

    def twice(stack: Stack) -> ImportPipeline:
        uploads = [Upload(prefix="a/", table=books), Upload(prefix="a/", table=books)]
        return make(stack, uploads=uploads)

    def whole_and_owned(stack: Stack) -> ImportPipeline:
        return make(stack, source_buckets=[incoming, Source(bucket=incoming, requester_pays=True)])

    return {
        "table not listed": lambda stack: upload(
            stack, table=dynamodb.Table(stack, "Other", partition_key=ISBN)
        ),
        "bucket not listed": lambda stack: upload(stack, bucket=incoming),
        "two rules of one prefix": twice,
        "different terms": whole_and_owned,
        "wrong type": lambda stack: upload(stack, types={"year": "Q"}),
        "wrong option": lambda stack: upload(stack, options={"mode": "last-wins"}),
        "wrong prefix": lambda stack: upload(stack, prefix="a*"),
        "wrong column of a filter": lambda stack: upload(stack, where=["year"]),
        "misspelt parameter": lambda stack: make(stack, dashbord=True),
        "knob of the stack": lambda stack: make(stack, stack_name="other"),
        "wrong knob": lambda stack: make(stack, timeout_seconds=1000),
        "half a network": lambda stack: make(stack, network=Network("vpc-0a1b2c3d", [], [])),
        "names of tables": lambda stack: make(stack, tables=["books"]),
        "names of buckets": lambda stack: make(stack, source_buckets=["books"]),
        "imported alias": alias,
        "table of another stack's region": lambda stack: make(stack, tables=[there]),
        "table of another region by ARN": by_arn,
        "uploads of another region": lambda stack: make(
            stack, source_buckets=[events], uploads=[Upload(prefix="", table=books, bucket=events)]
        ),
        "too many rules": many,
        "unknown metric": lambda stack: make(stack).metric("RowsWriten"),
    }


def main(folder: Path) -> None:
    context = {"aws:cdk:disable-stack-trace": True}
    app = App(
        outdir=str(folder),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
        context=context,
    )
    Shop(app, Data(app))
    app.synth()
    errors: dict[str, list[str]] = {}
    wrong = App(context=context)
    for number, (name, make) in enumerate(wrong_pipelines(Data(wrong)).items()):
        try:
            make(Stack(wrong, f"wrong{number}", env=HERE))
        except DeploymentError as error:
            errors[name] = [type(error).__name__, str(error)]
        else:
            errors[name] = ["", "no error"]
    (folder / "errors.json").write_text(json.dumps(errors), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
