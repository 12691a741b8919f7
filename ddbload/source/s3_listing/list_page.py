"""Parse ListObjectsV2 responses, without I/O.

The rules are those of "ListObjectsV2" in the S3 API Reference. Responses in the form that S3 writes
are parsed by a regular expression, which must match every entry completely. Others are parsed as
XML.
"""

from __future__ import annotations

import re
from operator import lt
from typing import NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

from ddbload.aws.http_client.http1 import Response


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


_TOKEN = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")
_TOKEN_BYTES = re.compile(_TOKEN.pattern.encode())
_TRUNCATED = re.compile(r"<IsTruncated>\s*([a-z]*)\s*</IsTruncated>")
_ENTRY = re.compile(
    r"<Contents><Key>([^<]*)</Key><LastModified>([^<]*)</LastModified><ETag>([^<]*)</ETag>"
    r"(?:<Checksum(Algorithm|Type)>[^<]*</Checksum\4>)*"
    r"<Size>([0-9]+)</Size>(?:<StorageClass>([^<]*)</StorageClass>)?</Contents>"
)
_ENCODED = "<EncodingType>url</EncodingType>"
# Pages with comments, CDATA or carriage returns are parsed as XML.
_UNUSUAL = ("<!", "\r")
_REFERENCE = re.compile(r"&(?!amp;|lt;|gt;|apos;)")
_END = "</ListBucketResult>"
_STANDARD = "STANDARD"


def token_of(partial: Response) -> str | None:
    """Find the continuation token in a partial response; None if it is not there."""
    found = _TOKEN_BYTES.search(partial.body)
    # S3's tokens contain no XML references; a token with one is left to the XML parser.
    if found is None or b"&" in found[1] or not found[1].isascii():
        return None
    return found[1].decode("ascii")


def read_page(body: bytes) -> ListPage:
    """Parse a response. Raises `BadPage`, whose message does not quote the response."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        # XML may have another encoding.
        return _parse_xml(body)
    if not text.rstrip().endswith(_END) or any(each in text for each in _UNUSUAL):
        return _parse_xml(body)
    truncated = _TRUNCATED.search(text)
    text = text.replace("&quot;", '"')
    has_references = "&" in text
    if has_references and _REFERENCE.search(text):
        return _parse_xml(body)
    found = _ENTRY.findall(text)
    if truncated is None or len(found) != text.count("<Contents"):
        return _parse_xml(body)
    token = _TOKEN.search(text)
    if (truncated[1] == "true") != (token is not None):
        return _parse_xml(body)
    is_encoded = _ENCODED in text
    objects = [
        ListedObject(
            _text(key, is_encoded),
            int(size),
            _text(etag),
            _text(storage) or _STANDARD,
            _text(modified),
        )
        for key, modified, etag, _, size, storage in found
    ]
    return ListPage(objects, None if token is None else _text(token[1]))


def is_sorted(objects: list[ListedObject]) -> bool:
    """Return whether keys ascend by UTF-8 bytes, which equals the order of code points."""
    keys = [each[0] for each in objects]
    return all(map(lt, keys, keys[1:]))


def _text(text: str, is_encoded: bool = False) -> str:
    if "&" in text:
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&apos;", "'")
        text = text.replace("&amp;", "&")
    return _url_decode(text) if is_encoded else text


def _url_decode(key: str) -> str:
    # Like botocore, decode a plus as a space.
    if "%" not in key and "+" not in key:
        return key
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError:
        raise BadPage("a key is not UTF-8") from None


def _parse_xml(body: bytes) -> ListPage:
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

    def key_of(entry: ET.Element) -> str:
        found = _required(entry.findtext(f"{space}Key"))
        return _url_decode(found) if is_encoded else found

    objects = [
        ListedObject(
            key_of(each),
            _size(_required(each.findtext(f"{space}Size"))),
            each.findtext(f"{space}ETag", ""),
            each.findtext(f"{space}StorageClass") or _STANDARD,
            each.findtext(f"{space}LastModified", ""),
        )
        for each in root.iterfind(f"{space}Contents")
    ]
    return ListPage(objects, token if is_truncated else None)


def _required(found: str | None) -> str:
    if found is None:
        raise BadPage("an entry of the listing has no key or no size")
    return found


def _size(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadPage("a size is not a number") from None
