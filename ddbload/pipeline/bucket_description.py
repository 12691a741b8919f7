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
from ddbload.write.object_requests import moved_bucket

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients

_UNEXPLAINED = (400, 403)
"""HTTP statuses of a HEAD that have several causes."""


def describe_bucket(
    target: OtherTarget, clients: AwsClients, *, retry_policy: RetryPolicy
) -> Table:
    """Check that the bucket is there, and return what stands for a table in the run's record.

    Raises `BucketNotFound`, `AccessDenied`, and AWS's errors.
    """
    # Imported here, because commands that do not use botocore need not wait for it.
    from botocore.exceptions import ClientError

    assert isinstance(target, BucketTarget)  # noqa: S101 - by its kind
    bucket = target.bucket

    def expected(failure: AwsFailure) -> Exception | None:
        if failure.status == 404:
            return BucketNotFound(
                f"there is no bucket {bucket}; ddbload does not create buckets: check the name, or"
                f" make it with aws s3 mb s3://{bucket}"
            )
        if failure.code == "ParamValidationError":
            return BucketNotFound(
                f"no bucket can have the name {bucket}: check it; an access point is named by its"
                " alias, or by its ARN with colons alone (arn:...:accesspoint:NAME)"
            )
        if failure.is_redirect:
            return moved_bucket(bucket)
        if failure.code in ("403", "AccessDenied", "AllAccessDisabled"):
            return AccessDenied(
                f"looking at bucket {bucket}: {failure.code}: HTTP status 403; check the bucket's"
                " name, the credentials (aws sts get-caller-identity) and their permissions:"
                " s3:ListBucket of the bucket, s3:PutObject and s3:GetObject of its objects"
            )
        return None

    def look() -> None:
        try:
            clients.s3.head_bucket(Bucket=bucket)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in _UNEXPLAINED:
                raise
            # The answer to HEAD has no error code: expired credentials, a wrong clock and a missing
            # permission look alike. A listing needs the same permission, and says which it is.
            clients.s3.list_objects_v2(Bucket=bucket, MaxKeys=1)

    call_with_retries(look, f"looking at bucket {bucket}", policy=retry_policy, expected=expected)
    key = KeyAttribute(OBJECT_KEY, "S", target.key_bytes)
    return Table(target.name, target.name, (key,), kind=BUCKET_KIND)
