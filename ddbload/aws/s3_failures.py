"""What S3's answers to requests of one's own mean."""

from __future__ import annotations

import re
from xml.sax.saxutils import unescape

from ddbload.aws.failures import AwsFailure, failure_of_code
from ddbload.aws.http_client.http1 import Response
from ddbload.errors import AwsConfiguration

_FIELD = re.compile(r"<(Code|Message|Region)>([^<]*)</\1>")
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9.]{2,99}")
_REGION = re.compile(r"[a-z0-9-]{1,64}")
_MOVED = {
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
    "TemporaryRedirect",
}
"""Codes for a bucket that is in another region, or asked for by another's signature."""
_ERROR_BYTES = 65536
"""Errors are short."""
_ENTITIES = {"&quot;": '"', "&apos;": "'"}


def failure_of_s3_response(response: Response) -> AwsFailure | None:
    """What an answer means; None for one that is to be read.

    S3's errors are XML. Whatever lies between may say something else: then the status tells.
    """
    status = response.status
    if status in (200, 206):
        return None
    said = _said(response)
    code, text = said.get("Code", ""), unescape(said.get("Message", ""), _ENTITIES)
    if not _CODE.fullmatch(code):
        code, text = str(status), f"HTTP status {status}"
    return failure_of_code(code, text or code, status, response.headers.get("x-amz-request-id", ""))


def redirected_region(response: Response, bucket: str, region: str) -> AwsConfiguration | None:
    """The named error for a bucket that is in another region than `region`; None for any other."""
    if response.status < 300:
        return None
    said = _said(response)
    there = response.headers.get("x-amz-bucket-region") or said.get("Region", "")
    is_elsewhere = bool(_REGION.fullmatch(there)) and there != region
    if response.status not in (301, 307) and not (said.get("Code") in _MOVED and is_elsewhere):
        return None
    if not is_elsewhere:
        return AwsConfiguration(
            f"AWS settings: the bucket {bucket} is at another endpoint than {region}'s; give"
            " --region, or check --endpoint-url"
        )
    return AwsConfiguration(
        f"AWS settings: the bucket {bucket} is in {there}, and not in {region}: give --region"
        f" {there}, or set AWS_REGION"
    )


def _said(response: Response) -> dict[str, str]:
    return dict(_FIELD.findall(response.body[:_ERROR_BYTES].decode("utf-8", "replace")))
