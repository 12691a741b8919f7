"""AWS clients of one process: botocore's, and signers for the requests ddbload sends itself."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ddbload.aws.boto_clients import AwsSettings, BotoClients

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_stepfunctions import SFNClient

    from ddbload.aws.signing.dynamodb_signer import DynamoDBSigner
    from ddbload.aws.signing.s3_signer import S3Signer


class AwsClients(Protocol):
    """Clients that an import, a plan or a conversion uses."""

    @property
    def dynamodb(self) -> DynamoDBClient:
        """botocore client of DynamoDB. Raises `AwsConfiguration`."""

    @property
    def dynamodb_signer(self) -> DynamoDBSigner:
        """Signer of requests to DynamoDB. Raises `AwsConfiguration`."""

    @property
    def s3(self) -> S3Client:
        """botocore client of S3. Raises `AwsConfiguration`."""

    @property
    def stepfunctions(self) -> SFNClient:
        """botocore client of Step Functions. Raises `AwsConfiguration`."""

    @property
    def events(self) -> Any:
        """botocore client of EventBridge. Raises `AwsConfiguration`."""

    def s3_signer(self, bucket: str) -> S3Signer | None:
        """Make a signer of requests to a bucket; None where only botocore can reach it."""

    def advisory(self, service: str) -> Any:
        """Make a client that reads information a run can do without. Raises `AwsConfiguration`."""

    def renew(self) -> None:
        """Load the credentials again for the next client of DynamoDB."""


class Clients(BotoClients):
    """botocore clients and request signers, made at first use and safe for threads.

    Signers are imported at first use too: steps that only read the ledger start without them.
    """

    def __init__(self, settings: AwsSettings | None = None, connections: int = 16) -> None:
        super().__init__(settings, connections)
        self._dynamodb_signer: DynamoDBSigner | None = None
        self._located: set[str] = set()

    @property
    def dynamodb_signer(self) -> DynamoDBSigner:
        """Signer of requests to DynamoDB. Raises `AwsConfiguration`."""
        if self._dynamodb_signer is None:
            from ddbload.aws.signing.dynamodb_signer import DynamoDBSigner

            self._dynamodb_signer = DynamoDBSigner(self)
        return self._dynamodb_signer

    def s3_signer(self, bucket: str) -> S3Signer | None:
        """Make a signer of requests to a bucket; None where only botocore can reach it."""
        from ddbload.aws.signing.s3_signer import s3_signer_for

        self._locate(bucket)
        return s3_signer_for(self, bucket)

    def _locate(self, bucket: str) -> None:
        """Have botocore find the region of a bucket of AWS, which may be another than the client's.

        botocore follows S3's redirect and remembers the region; ddbload's HTTP client does not.
        """
        if bucket in self._located or ".amazonaws.com" not in self.s3.meta.endpoint_url:
            return
        self._located.add(bucket)
        # The region is known even where this request is refused. Another error ends the next one.
        with suppress(Exception):
            self.s3.head_bucket(Bucket=bucket)
