"""Where requests for a bucket go, and who signs them: all as botocore would have it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import get_ident
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ddbload.aws import boto_clients as module
from ddbload.aws import failures
from ddbload.aws.boto_clients import BotoClients
from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.http_client.event_loop import HttpLoop, Timeouts
from ddbload.aws.signing.credentials import SigningCredentials, has_proxy
from ddbload.aws.signing.sigv4 import GetSigner, encoded_path, encoded_query
from ddbload.errors import AwsConfiguration, SourceNotFound

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

FIRST_BYTE_SECONDS = 10.0
"""An answer that has not begun by then is taken for lost."""


class BucketAddress(NamedTuple):
    """Where a bucket's requests go."""

    endpoint: Endpoint
    path: str
    """What stands before an object's key, encoded: `/`, or `/bucket/` at endpoints of one's own."""
    service: str
    """For which they are signed: s3, or s3-outposts."""


class S3Signer(SigningCredentials):
    """Signs requests for one bucket with the credentials of now, by the clock of AWS.

    One thread uses it. There is none (see `s3_identity`) where only botocore knows the way.
    """

    def __init__(
        self,
        clients: BotoClients,
        bucket: str,
        place: BucketAddress,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises `AccessDenied` and `AwsConfiguration`."""
        doing = "signing requests to S3"
        super().__init__(clients, place.endpoint, doing, clock=clock, monotonic=monotonic)
        self.bucket = bucket
        self._path = place.path
        endpoint = place.endpoint
        self._signer = GetSigner(
            service=place.service, region=endpoint.region, host=endpoint.authority
        )

    def connect(self, connections: int) -> HttpLoop:
        """Where requests are sent. The caller closes it. Raises `AwsConfiguration`."""
        most = float(module.READ_SECONDS)
        timeouts = Timeouts(
            connect=module.CONNECT_SECONDS, first_byte=min(FIRST_BYTE_SECONDS, most), whole=most
        )
        return HttpLoop(self.endpoint, connections, self.tls(), timeouts=timeouts)

    def get(
        self, key: str, headers: Mapping[str, str], version_id: str | None = None
    ) -> tuple[bytes, int]:
        """The whole request for an object, signed now; and how it is signed, for `may_pass`.

        `headers`: `if-match` and `range`, in this order. Raises `AwsConfiguration`.
        """
        query = encoded_query({"versionId": version_id}) if version_id else ""
        return self._request(self._path + encoded_path(key), query, headers)

    def list(self, query: Mapping[str, str]) -> tuple[bytes, int]:
        """The same for a page of a listing."""
        path = self._path if self._path == "/" else self._path.removesuffix("/")
        return self._request(path, encoded_query(query), {})

    def _request(self, path: str, query: str, headers: Mapping[str, str]) -> tuple[bytes, int]:
        self._look_in_time()
        request = self._signer.request(path, query, headers, self._credentials, self._now())
        return request, self.generation


def s3_signer_for(clients: BotoClients, bucket: str) -> S3Signer | None:
    """Who signs requests for a bucket.

    None where only botocore knows how: behind a proxy, for directory buckets (S3 Express), for
    multi-region access points, and without a signature. Raises `AccessDenied`, `AwsConfiguration`,
    and `SourceNotFound` for what cannot be a bucket's name.
    """
    place = _bucket_address(clients.s3, bucket)
    return None if place is None else S3Signer(clients, bucket, place)


def _bucket_address(client: S3Client, bucket: str) -> BucketAddress | None:
    """Where botocore itself would send a request, and for what it would sign it.

    It knows that for each bucket only: virtual hosts, access points, FIPS and dual-stack endpoints.
    """
    from botocore.exceptions import BotoCoreError, ParamValidationError

    found: list[Any] = []
    here = get_ident()

    def instead_of_sending(params: Mapping[str, Any], **_: object) -> Any:
        if get_ident() != here:
            # Somebody else's request, who uses the same client meanwhile.
            return None
        found.append(params)
        return SimpleNamespace(status_code=200, headers={}), {}

    # What such a hook returns is taken for the answer.
    hook: Any = instead_of_sending
    event = "before-call.s3.GetObject"
    client.meta.events.register_first(event, hook)
    try:
        client.get_object(Bucket=bucket, Key="k")
    except ParamValidationError:
        raise SourceNotFound(f"s3://{bucket}: no such bucket; that is no bucket's name") from None
    except BotoCoreError as error:
        raise failures.configuration_error(error) from None
    finally:
        client.meta.events.unregister(event, hook)
    (request,) = found
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
