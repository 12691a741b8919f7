"""Clients of one process: botocore's, and signers for the requests that ddbload sends itself."""

from __future__ import annotations

from ddbload.aws.boto_clients import AwsSettings, BotoClients
from ddbload.aws.signing.dynamodb_signer import DynamoDBSigner
from ddbload.aws.signing.s3_signer import S3Signer, s3_signer_for


class Clients(BotoClients):
    """botocore clients and request signers, made at first use and safe for threads."""

    def __init__(self, settings: AwsSettings | None = None, connections: int = 16) -> None:
        super().__init__(settings, connections)
        self._dynamodb_signer: DynamoDBSigner | None = None

    @property
    def dynamodb_signer(self) -> DynamoDBSigner:
        """Signer of requests to DynamoDB. Raises `AwsConfiguration`."""
        if self._dynamodb_signer is None:
            self._dynamodb_signer = DynamoDBSigner(self)
        return self._dynamodb_signer

    def s3_signer(self, bucket: str) -> S3Signer | None:
        """Make a signer of requests to a bucket; None where only botocore can reach it."""
        return s3_signer_for(self, bucket)
