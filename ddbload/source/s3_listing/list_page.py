"""What a page of a listing says. No I/O.

The rules are those of "ListObjectsV2" in the S3 API Reference. S3's own pages are read by a
regular expression that must fit every entry whole; whatever looks otherwise, by an XML parser.
"""

from __future__ import annotations

import re
from operator import lt
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from ddbload.aws.http_client.http1 import Response


class ListedObject(NamedTuple):
    """An object in a listing."""

    key: str
    size: int
    """Bytes."""
    etag: str
    """With its quotes, as If-Match takes it."""
    storage_class: str
    """STANDARD where S3 says none."""
    modified: str
    """As S3 wrote it: 2026-11-21T20:08:00.000Z."""


class ListedFolder(NamedTuple):
    """What keys up to a delimiter have in common."""

    prefix: str
    """With the delimiter."""


class ListPage(NamedTuple):
    """What one answer lists."""

    objects: list[ListedObject]
    folders: list[ListedFolder]
    token: str | None
    """Asks for the next page; None where this is the last."""


class BadPage(ValueError):
    """An answer that is no page of a listing."""


_TOKEN = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")
_TOKEN_BYTES = re.compile(_TOKEN.pattern.encode())
_TRUNCATED = re.compile(r"<IsTruncated>\s*([a-z]*)\s*</IsTruncated>")
_ENTRY = re.compile(
    r"<Contents><Key>([^<]*)</Key><LastModified>([^<]*)</LastModified><ETag>([^<]*)</ETag>"
    r"(?:<Checksum(Algorithm|Type)>[^<]*</Checksum\4>)*"
    r"<Size>([0-9]+)</Size>(?:<StorageClass>([^<]*)</StorageClass>)?</Contents>"
)
_ENCODED = "<EncodingType>url</EncodingType>"
# What only a parser reads right: comments and the like, line ends in text, other references.
_UNUSUAL = ("<!", "\r", "<CommonPrefixes")
_REFERENCE = re.compile(r"&(?!amp;|lt;|gt;|apos;)")
_END = "</ListBucketResult>"
_STANDARD = "STANDARD"


def token_of(part: Response) -> str | None:
    """The next page's token, where an answer's beginning has it already."""
    found = _TOKEN_BYTES.search(part.body)
    # A reference in it is the parser's business, and no token of S3's has one.
    if found is None or b"&" in found[1] or not found[1].isascii():
        return None
    return found[1].decode("ascii")


def read_page(body: bytes) -> ListPage:
    """Read an answer. Raises `BadPage`, with nothing of the answer in it."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        # Of another encoding, as XML may be.
        return _parsed(body)
    if not text.rstrip().endswith(_END) or any(each in text for each in _UNUSUAL):
        return _parsed(body)
    truncated = _TRUNCATED.search(text)
    text = text.replace("&quot;", '"')
    has_references = "&" in text
    if has_references and _REFERENCE.search(text):
        return _parsed(body)
    found = _ENTRY.findall(text)
    if truncated is None or len(found) != text.count("<Contents"):
        return _parsed(body)
    token = _TOKEN.search(text)
    if (truncated[1] == "true") != (token is not None):
        return _parsed(body)
    is_encoded = _ENCODED in text
    if has_references or is_encoded:
        objects = [
            ListedObject(
                _text(key, is_encoded),
                int(size),
                _text(etag, is_encoded=False),
                _text(storage, is_encoded=False) or _STANDARD,
                _text(modified, is_encoded=False),
            )
            for key, modified, etag, _, size, storage in found
        ]
    else:
        objects = [
            ListedObject(key, int(size), etag, storage or _STANDARD, modified)
            for key, modified, etag, _, size, storage in found
        ]
    return ListPage(objects, [], None if token is None else _text(token[1], is_encoded=False))


def ascends(objects: list[ListedObject]) -> bool:
    """Whether keys are in the order of their UTF-8 bytes, which is that of their characters."""
    keys = [each[0] for each in objects]
    return all(map(lt, keys, keys[1:]))


def _text(text: str, is_encoded: bool) -> str:
    if "&" in text:
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&apos;", "'")
        text = text.replace("&amp;", "&")
    return _decoded(text) if is_encoded else text


def _decoded(key: str) -> str:
    # As botocore does: a blank may be written as plus, and a plus never is itself.
    if "%" not in key and "+" not in key:
        return key
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError:
        raise BadPage("a key is no UTF-8") from None


def _parsed(body: bytes) -> ListPage:
    from xml.etree import ElementTree as ET

    try:
        root = ET.fromstring(body)  # noqa: S314 - from the endpoint that is to be trusted with data
    except (ET.ParseError, ValueError, LookupError):
        raise BadPage("the answer is no XML") from None
    if _name(root) != "ListBucketResult":
        raise BadPage("the answer is no listing")
    said: dict[str, str] = {}
    contents: list[dict[str, str]] = []
    prefixes: list[dict[str, str]] = []
    for child in root:
        name = _name(child)
        if name == "Contents":
            contents.append(_fields(child))
        elif name == "CommonPrefixes":
            prefixes.append(_fields(child))
        else:
            said[name] = child.text or ""
    is_encoded = said.get("EncodingType", "").strip() == "url"
    is_truncated = said.get("IsTruncated", "").strip() == "true"
    token = said.get("NextContinuationToken")
    if is_truncated and not token:
        raise BadPage("the answer does not say how to go on")
    try:
        objects = [
            ListedObject(
                _decoded(each["Key"]) if is_encoded else each["Key"],
                int(each["Size"]),
                each.get("ETag", ""),
                each.get("StorageClass") or _STANDARD,
                each.get("LastModified", ""),
            )
            for each in contents
        ]
        folders = [
            ListedFolder(_decoded(each["Prefix"]) if is_encoded else each["Prefix"])
            for each in prefixes
        ]
    except KeyError:
        raise BadPage("an entry of the listing has no key or no size") from None
    except ValueError as error:
        raise BadPage(str(error) if isinstance(error, BadPage) else "a size is no number") from None
    return ListPage(objects, folders, token if is_truncated else None)


def _fields(element: Any) -> dict[str, str]:
    return {_name(child): child.text or "" for child in element}


def _name(element: Any) -> str:
    """Without its namespace."""
    return str(element.tag).rpartition("}")[2]
