"""Parse ListObjectsV2 responses, without I/O.

The rules are those of "ListObjectsV2" in the S3 API Reference.
"""

from __future__ import annotations

from operator import lt
from typing import NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET


class ListedObject(NamedTuple):
    """Object in a listing."""

    key: str
    size: int
    """Size in bytes."""
    etag: str
    """ETag with its quotes, in the form of If-Match."""
    storage_class: str
    """Storage class; STANDARD if S3 omits it."""
    modified: str
    """Time of the last change, as S3 writes it: 2026-11-21T20:08:00.000Z."""


class ListPage(NamedTuple):
    """Content of one response."""

    objects: list[ListedObject]
    token: str | None
    """Continuation token for the next page; None on the last page."""


class BadPage(ValueError):
    """Raised for a response that is not a page of a listing."""


def read_page(body: bytes) -> ListPage:
    """Parse a response. Raises `BadPage`, whose message does not quote the response."""
    try:
        root = ET.fromstring(body)  # noqa: S314 - the endpoint is trusted
    except (ET.ParseError, ValueError, LookupError):
        raise BadPage("the answer is not XML") from None
    space = root.tag[: root.tag.rfind("}") + 1]
    if root.tag != f"{space}ListBucketResult":
        raise BadPage("the answer is not a listing")
    is_encoded = root.findtext(f"{space}EncodingType", "").strip() == "url"
    is_truncated = root.findtext(f"{space}IsTruncated", "").strip() == "true"
    token = root.findtext(f"{space}NextContinuationToken")
    if is_truncated and not token:
        raise BadPage("the answer does not say how to go on")
    objects = []
    for entry in root.iterfind(f"{space}Contents"):
        key, size = entry.findtext(f"{space}Key"), entry.findtext(f"{space}Size")
        if key is None or size is None:
            raise BadPage("an entry of the listing has no key or no size")
        try:
            number = int(size)
        except ValueError:
            raise BadPage("a size is not a number") from None
        objects.append(
            ListedObject(
                _url_decode(key) if is_encoded else key,
                number,
                entry.findtext(f"{space}ETag", ""),
                entry.findtext(f"{space}StorageClass") or "STANDARD",
                entry.findtext(f"{space}LastModified", ""),
            )
        )
    return ListPage(objects, token if is_truncated else None)


def is_sorted(objects: list[ListedObject]) -> bool:
    """Return whether keys ascend by UTF-8 bytes, which equals the order of code points."""
    keys = [each[0] for each in objects]
    return all(map(lt, keys, keys[1:]))


def _url_decode(key: str) -> str:
    try:
        # Like botocore, decode a plus as a space.
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError:
        raise BadPage("a key is not UTF-8") from None
