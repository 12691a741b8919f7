"""Signer of requests to a bucket, with endpoint and region as botocore chooses them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ddbload.aws import failures
from ddbload.aws.boto_clients import BotoClients
from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.signing.credentials import SigningCredentials, captured_request, has_proxy
from ddbload.aws.signing.sigv4 import GetSigner, encoded_path, encoded_query
from ddbload.errors import AwsConfiguration, SourceNotFound

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


_HEADERS = {
    "ExpectedBucketOwner": "x-amz-expected-bucket-owner",
    "RequestPayer": "x-amz-request-payer",
}
"""Headers of a bucket's terms, which are parameters of botocore."""


class BucketAddress(NamedTuple):
    """Address that a bucket's requests are sent to."""

    endpoint: Endpoint
    path: str
    """Encoded path before an object's key: `/`, or `/bucket/` with a custom endpoint."""
    service: str
    """Service name in the signature: s3 or s3-outposts."""


class S3Signer(SigningCredentials):
    """Signer of requests to one bucket, with current credentials and AWS's clock.

    To be used by one thread. Made by `s3_signer_for`.
    """

    def __init__(
        self,
        clients: BotoClients,
        bucket: str,
        address: BucketAddress,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Load the credentials. Raises `AccessDenied` and `AwsConfiguration`."""
        doing = "signing requests to S3"
        super().__init__(clients, address.endpoint, doing, clock=clock, monotonic=monotonic)
        self.bucket = bucket
        self._path = address.path
        endpoint = address.endpoint
        terms = clients.terms(bucket)
        self._signer = GetSigner(
            service=address.service,
            region=endpoint.region,
            host=endpoint.authority,
            amz_headers={_HEADERS[name]: value for name, value in terms.items()},
        )

    def get(
        self, key: str, headers: Mapping[str, str], version_id: str | None = None
    ) -> tuple[bytes, int]:
        """Sign a GET of an object; returns the request and its generation, see `may_pass`.

        `headers`: `if-match` and `range`, in this order. Raises `AwsConfiguration`.
        """
        query = encoded_query({"versionId": version_id}) if version_id else ""
        return self._request(self._path + encoded_path(key), query, headers)

    def list(self, query: Mapping[str, str]) -> tuple[bytes, int]:
        """Sign a request for a page of a listing; returns as `get`."""
        path = self._path if self._path == "/" else self._path.removesuffix("/")
        return self._request(path, encoded_query(query), {})

    def _request(self, path: str, query: str, headers: Mapping[str, str]) -> tuple[bytes, int]:
        self._refresh()
        request = self._signer.request(path, query, headers, self._credentials, self._now())
        return request, self.generation


def s3_signer_for(clients: BotoClients, bucket: str) -> S3Signer | None:
    """Make a signer of requests to a bucket; None where only botocore can reach it.

    That is behind a proxy, for directory buckets (S3 Express), for multi-region access points, and
    without signatures. Raises `AccessDenied`, `AwsConfiguration`, and `SourceNotFound` for an
    invalid bucket name.
    """
    address = _bucket_address(clients.s3, bucket)
    return None if address is None else S3Signer(clients, bucket, address)


def _bucket_address(client: S3Client, bucket: str) -> BucketAddress | None:
    """Find the address that botocore would use for a bucket; None if it is not supported."""
    from botocore.exceptions import BotoCoreError, ParamValidationError

    try:
        request = captured_request(
            client, "s3.GetObject", lambda: client.get_object(Bucket=bucket, Key="k")
        )
    except ParamValidationError:
        raise SourceNotFound(
            f"s3://{bucket}: no such bucket; the name is not valid for a bucket (an access point is"
            " named by its alias)"
        ) from None
    except BotoCoreError as error:
        raise failures.configuration_error(error) from None
    context: Mapping[str, Any] = request["context"]
    signing: Mapping[str, Any] = context.get("signing") or {}
    url = str(request["url"])
    parts = urlsplit(url)
    is_plain = context.get("auth_type") in (None, "v4", "s3v4")
    if not is_plain or not parts.path.endswith("/k") or parts.query or has_proxy(url):
        return None
    if parts.hostname is None:
        raise AwsConfiguration(f"AWS settings: there is no endpoint for the bucket {bucket}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    region = signing.get("region") or client.meta.region_name
    endpoint = Endpoint(parts.scheme, parts.hostname, port, region)
    return BucketAddress(
        endpoint, parts.path.removesuffix("k"), signing.get("signing_name") or "s3"
    )
