"""The work bucket, the inbox, and the form of all queues.

Both buckets outlive the stack, since they hold the ledgers of runs and users' files. They are
deleted only if the first deployment fails, so that each attempt does not leave two more buckets.
"""

from __future__ import annotations

from typing import Any, cast

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .inputs import key_arns
from .policy_statements import use_keys

RUNS = "runs/"
STARTS = "started/"
"""Prefix of the index of runs by time."""
UPLOAD_ORDER = "uploads/"
"""Prefix of the states that order the uploads to one key."""
ONCE = "once/"
"""Prefix of the claims of runs that load a source once."""
HISTORY = "history/"
"""Prefix of what was loaded into which table, which does not expire."""
MAP_RUNS = "mapruns/"
"""Prefix of the state machine's ResultWriter."""
NOTICES = "notices/"
"""Prefix of the marks of events that were sent."""
ABANDONED_UPLOADS = Duration.days(7)


class Storage(Construct):
    """The work bucket, with the ledgers, and the inbox, where an upload starts a run."""

    def __init__(
        self, scope: Construct, name: str, *, retain_runs_days: int, key: kms.IKey | None = None
    ) -> None:
        """`key`: KMS key that encrypts both; None for S3's own keys."""
        super().__init__(scope, name)
        self._key = key
        self._key_arns = key_arns([key])
        kept = Duration.days(retain_runs_days)
        self.work = self._bucket(
            "Work",
            lifecycle_rules=[
                s3.LifecycleRule(id="ExpireRuns", prefix=RUNS, expiration=kept),
                s3.LifecycleRule(id="ExpireStarts", prefix=STARTS, expiration=kept),
                s3.LifecycleRule(id="ExpireUploadOrder", prefix=UPLOAD_ORDER, expiration=kept),
                s3.LifecycleRule(id="ExpireClaims", prefix=ONCE, expiration=kept),
                s3.LifecycleRule(id="ExpireMapRuns", prefix=MAP_RUNS, expiration=kept),
                s3.LifecycleRule(id="ExpireNotices", prefix=NOTICES, expiration=kept),
                _abort_uploads(),
            ],
        )
        self.inbox = self._bucket(
            "Inbox",
            # A run reads the version that it began with, which is kept as long as the run can be
            # resumed.
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
        # The L2 construct's flag would add a custom resource, which is a function with a role.
        inbox = cast("s3.CfnBucket", self.inbox.node.default_child)
        inbox.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(
                event_bridge_enabled=True
            )
        )

    def allow_key(self, role: iam.Role) -> None:
        """Allow a role to read and write objects that are encrypted with the buckets' key."""
        actions = ["kms:Decrypt", "kms:GenerateDataKey"]
        use_keys(role, "UseBucketKey", self._key_arns, actions, f"s3.{Aws.REGION}")

    def _bucket(self, name: str, **more: Any) -> s3.Bucket:
        # CloudFormation makes the names, since bucket names are globally unique.
        bucket = s3.Bucket(
            self,
            name,
            encryption=(
                s3.BucketEncryption.S3_MANAGED if self._key is None else s3.BucketEncryption.KMS
            ),
            encryption_key=self._key,
            # One call of KMS for many objects.
            bucket_key_enabled=None if self._key is None else True,
            enforce_ssl=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
            **more,
        )
        if bucket.policy is not None:
            # The policy refuses unencrypted connections as long as the bucket exists.
            bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return bucket


def encrypted_queue(scope: Construct, name: str, retention: Duration, **more: Any) -> sqs.Queue:
    """Make a queue that is removed with the stack, and takes requests by TLS only."""
    return sqs.Queue(
        scope,
        name,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=retention,
        removal_policy=RemovalPolicy.DESTROY,
        **more,
    )


def _abort_uploads() -> s3.LifecycleRule:
    return s3.LifecycleRule(
        id="AbortUploads", abort_incomplete_multipart_upload_after=ABANDONED_UPLOADS
    )
