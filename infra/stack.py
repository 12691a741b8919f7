"""The stack that `ddbload deploy` deploys: one pipeline, for tables and buckets that exist."""

from __future__ import annotations

from typing import Any

from aws_cdk import Annotations, Aws, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct

from ddbload import __version__
from ddbload.contracts.upload_rule import UploadRule

from .inputs import Knobs, Network, Source, Upload
from .pipeline import ImportPipeline
from .settings import Settings


class DdbloadStack(Stack):
    """One pipeline, for any account and region; stacks do not interfere with each other.

    Policies name existing tables; the stack never creates, imports or deletes one.
    """

    def __init__(self, scope: Construct, settings: Settings, **more: Any) -> None:
        super().__init__(
            scope,
            settings.stack_name,
            description="ddbload: loads S3 objects into DynamoDB tables",
            **more,
        )
        # `ddbload deploy` changes only what it is asked to, and reads here what there is.
        self.template_options.metadata = {
            "ddbload": {"version": __version__, "settings": settings.to_context()}
        }
        tables = {
            name: dynamodb.Table.from_table_name(self, f"Table-{name}", name)
            for name in settings.tables
        }
        buckets = {
            name: s3.Bucket.from_bucket_name(self, f"Bucket-{name}", name)
            for name in dict.fromkeys(each.bucket for each in settings.source_buckets)
        }
        topic, key = settings.alarm_topic, settings.bucket_key
        knobs: Any = {name: getattr(settings, name) for name in Knobs.__annotations__}
        ImportPipeline(
            self,
            # CDK leaves this id out of logical ids, and a changed one would replace a bucket.
            "Default",
            name=Aws.STACK_NAME,
            tables=list(tables.values()),
            source_buckets=[
                Source(
                    bucket=buckets[each.bucket],
                    prefix=each.prefix,
                    owner=each.owner,
                    requester_pays=each.requester_pays,
                )
                for each in settings.source_buckets
            ],
            uploads=[_upload(each, tables, buckets) for each in settings.uploads],
            kms_keys=[self._key(f"Key-{n}", arn) for n, arn in enumerate(settings.kms_keys)],
            bucket_key=self._key("BucketKey", key) if key else None,
            layers=[
                lambda_.LayerVersion.from_layer_version_arn(self, f"Layer-{number}", arn)
                for number, arn in enumerate(settings.layers)
            ],
            alarm_topic=sns.Topic.from_topic_arn(self, "Topic", topic) if topic else None,
            network=Network(settings.vpc, settings.subnets, settings.security_groups)
            if settings.vpc
            else None,
            **knobs,
        ).add_outputs()
        self._warn(settings)

    def _key(self, name: str, arn: str) -> kms.IKey:
        return kms.Key.from_key_arn(self, name, arn)

    def _warn(self, settings: Settings) -> None:
        """Warn about settings that deploy but are probably mistakes."""
        notes = Annotations.of(self)
        if not settings.tables:
            notes.add_warning_v2(
                "ddbload:no-tables",
                "No table may be written: name some, as in `cdk deploy -c tables=books,films`,"
                " or in cdk.json",
            )
        if not settings.uploads:
            notes.add_warning_v2(
                "ddbload:no-uploads",
                "No upload starts a run: map prefixes to tables in cdk.json's uploads, if that"
                " is wanted",
            )


def _upload(
    rule: UploadRule, tables: dict[str, dynamodb.ITable], buckets: dict[str, s3.IBucket]
) -> Upload:
    given = rule.to_json()
    bucket = given.pop("bucket", None)
    table = tables[given.pop("table")]
    return Upload(table=table, bucket=None if bucket is None else buckets[bucket], **given)
