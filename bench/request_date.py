"""Refuse S3 requests that were signed too long ago, or in the future."""

from __future__ import annotations

import datetime as dt
import re
from email.utils import format_datetime

from bench.put_request import S3Error

_SIGNED_AT = re.compile(rb"\nx-amz-date: *([0-9TZ]+)", re.IGNORECASE)
_STAMP = "%Y%m%dT%H%M%SZ"


def check_date(head: bytes, max_skew: float, ahead: float = 0.0) -> None:
    """Raise `S3Error` unless a request was signed within so many seconds of now.

    `ahead`: seconds by which the server's clock differs from the machine's.
    """
    now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=ahead)
    found = _SIGNED_AT.search(head)
    signed = found[1].decode() if found else ""
    try:
        at = dt.datetime.strptime(signed, _STAMP).replace(tzinfo=dt.UTC)
    except ValueError:
        raise S3Error(403, "AccessDenied", "the request has no valid date") from None
    if abs((now - at).total_seconds()) <= max_skew:
        return
    raise S3Error(
        403,
        "RequestTimeTooSkewed",
        "The difference between the request time and the current time is too large.",
        details=(
            f"<RequestTime>{signed}</RequestTime>"
            f"<ServerTime>{now:%Y-%m-%dT%H:%M:%SZ}</ServerTime>"
            f"<MaxAllowedSkewMilliseconds>{max_skew * 1000:.0f}</MaxAllowedSkewMilliseconds>"
            "<RequestId>0000000000000000</RequestId><HostId>none</HostId>"
        ),
        headers=f"Date: {format_datetime(now, usegmt=True)}\r\n",
    )
