"""Pages of a fake bucket's listing, as ListObjects and ListObjectsV2 answer."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from urllib.parse import quote
from xml.sax.saxutils import escape

PAGE_KEYS = 1000
"""Most keys in a page."""
_OWNER = b"<Owner><ID>75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a</ID></Owner>"


def entry(key: str, etag: str, size: int, changed: int) -> bytes:
    """Return an object's entry, up to the owner and the end. `changed`: seconds since 1970."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(changed))
    return (
        f"<Contents><Key>{quote(key, safe='/~-._')}</Key><LastModified>{moment}.000Z</LastModified>"
        f"<ETag>&quot;{etag[1:-1]}&quot;</ETag><Size>{size}</Size>"
        "<StorageClass>STANDARD</StorageClass>"
    ).encode()


def page(
    bucket: str, keys: Sequence[str], entries: Sequence[bytes], query: Mapping[str, str]
) -> bytes:
    """Answer ListObjectsV2; without `list-type` ListObjects, which tells owners.

    Args:
        bucket: the bucket's name
        keys: all keys in order
        entries: the entry of each key
        query: the request's parameters
    """
    is_first_version = "list-type" not in query
    prefix = query.get("prefix", "")
    after = query.get("marker" if is_first_version else "start-after", "")
    # A token names a key, so that what is put between two pages moves no other key.
    begin = bytes.fromhex(query.get("continuation-token", "")).decode() or after
    first = max(bisect_left(keys, prefix), bisect_right(keys, begin))
    last = bisect_left(keys, prefix + "\U0010ffff")
    most = min(PAGE_KEYS, int(query.get("max-keys", PAGE_KEYS)))
    end = min(first + most, last)
    more = end < last
    if is_first_version:
        own = f"<Marker>{quote(after, safe='/')}</Marker>"
    else:
        own = f"<KeyCount>{max(0, end - first)}</KeyCount>"
        token = keys[end - 1].encode().hex() if more and end > first else ""
        own += f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult'
        f' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{bucket}</Name>'
        f"<Prefix>{escape(prefix)}</Prefix>{own}<MaxKeys>{most}</MaxKeys>"
        "<EncodingType>url</EncodingType>"
        f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
    ).encode()
    close = (_OWNER if is_first_version else b"") + b"</Contents>"
    return b"".join([head, *(each + close for each in entries[first:end]), b"</ListBucketResult>"])
