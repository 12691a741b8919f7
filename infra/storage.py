"""The two buckets. Both outlive the stack: the one has the record of what was loaded, the other
people's files. (But not a deployment that failed at the start: each try would leave two more.)
"""

from __future__ import annotations

from typing import Any, cast

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

RUNS = "runs/"
MAP_RUNS = "mapruns/"
"""The prefix that the state machine's ResultWriter names."""
ABANDONED_UPLOADS = Duration.days(7)


class Storage(Construct):
    """The work bucket, which has the ledger, and the inbox, where an upload starts a run."""

    def __init__(self, scope: Construct, name: str, *, retain_runs_days: int) -> None:
        super().__init__(scope, name)
        kept = Duration.days(retain_runs_days)
        self.work = self._bucket(
            "Work",
            lifecycle_rules=[
                s3.LifecycleRule(id="ExpireRuns", prefix=RUNS, expiration=kept),
                s3.LifecycleRule(id="ExpireMapRuns", prefix=MAP_RUNS, expiration=kept),
                _abort_uploads(),
            ],
        )
        self.inbox = self._bucket(
            "Inbox",
            # A run reads the version that it began with, whatever is uploaded meanwhile; and so
            # long as a run can be resumed, its version is there.
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="ExpireReplacedVersions",
                    noncurrent_version_expiration=kept,
                    expired_object_delete_marker=True,
                ),
                _abort_uploads(),
            ],
        )
        # The L2 construct's flag would do it by a custom resource, a function with rights of
        # its own.
        inbox = cast("s3.CfnBucket", self.inbox.node.default_child)
        inbox.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(
                event_bridge_enabled=True
            )
        )

    def _bucket(self, name: str, **more: Any) -> s3.Bucket:
        # The names are CloudFormation's: they are taken anywhere in the world only once.
        bucket = s3.Bucket(
            self,
            name,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
            **more,
        )
        if bucket.policy is not None:
            # What refuses unencrypted connections stays as long as the bucket.
            bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return bucket


def _abort_uploads() -> s3.LifecycleRule:
    return s3.LifecycleRule(
        id="AbortUploads", abort_incomplete_multipart_upload_after=ABANDONED_UPLOADS
    )
