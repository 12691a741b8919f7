"""Look at the bucket that a run writes objects to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import RetryPolicy, call_with_retries
from ddbload.contracts.options import BUCKET_KIND
from ddbload.contracts.payload import OtherTarget
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.contracts.target import OBJECT_KEY, BucketTarget
from ddbload.errors import AccessDenied, BucketNotFound

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients


def describe_bucket(
    target: OtherTarget, clients: AwsClients, *, retry_policy: RetryPolicy
) -> Table:
    """Check that the bucket is there, and return what stands for a table in the run's record.

    Raises `BucketNotFound`, `AccessDenied`, and AWS's errors.
    """
    assert isinstance(target, BucketTarget)  # noqa: S101 - by its kind
    bucket = target.bucket

    def expected(failure: AwsFailure) -> Exception | None:
        if failure.status == 404:
            return BucketNotFound(
                f"there is no bucket {bucket}; ddbload does not create buckets: check the name, or"
                f" make it with aws s3 mb s3://{bucket}"
            )
        if failure.status == 403:
            return AccessDenied(
                f"looking at bucket {bucket}: HTTP status 403; check the bucket's name, the"
                " credentials (aws sts get-caller-identity) and their permissions: s3:ListBucket"
                " of the bucket, s3:PutObject and s3:GetObject of its objects"
            )
        return None

    call_with_retries(
        lambda: clients.s3.head_bucket(Bucket=bucket),
        f"looking at bucket {bucket}",
        policy=retry_policy,
        expected=expected,
    )
    key = KeyAttribute(OBJECT_KEY, "S", target.key_bytes)
    return Table(target.name, target.name, (key,), kind=BUCKET_KIND)
