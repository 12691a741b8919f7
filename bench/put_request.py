"""Read PutObject requests as S3 does: bodies in any encoding, checksums, metadata, conditions."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b, md5

MOST_KEY_BYTES = 1024
_METADATA = "x-amz-meta-"
_CHECKSUM = "x-amz-checksum-"
_STREAMED = "STREAMING-"
_MODULUS = 1 << 128


class S3Error(Exception):
    """Error that a request is answered with. `details`: further XML; `headers`: whole lines."""

    def __init__(
        self, status: int, code: str, message: str = "", *, details: str = "", headers: str = ""
    ) -> None:
        super().__init__(message or code)
        self.status = status
        self.code = code
        self.details = details
        self.headers = headers


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object: its body, its ETag with quotes, and the headers that return with it."""

    body: bytes
    etag: str
    headers: Mapping[str, str]
    """Content type and user metadata by header."""


def object_digest(key: str, body: bytes) -> int:
    """Return a hash of a key and its body as a number."""
    name = key.encode()
    hashed = blake2b(len(name).to_bytes(8) + name + body, digest_size=16)
    return int.from_bytes(hashed.digest())


def bucket_checksum(digests: int) -> str:
    """Return the checksum of objects from the sum of their digests, in any order."""
    return f"{digests % _MODULUS:032x}"


def parse_headers(head: bytes) -> dict[str, str]:
    """Return the headers of a request by lower-case name. Their values are UTF-8, as botocore's."""
    lines = head.decode(errors="replace").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {name.lower(): value.strip() for name, _, value in pairs}


def read_object(headers: Mapping[str, str], body: bytes) -> StoredObject:
    """Decode and check what a PutObject request stores. Raises `S3Error`."""
    given = dict(headers)
    if headers.get("x-amz-content-sha256", "").startswith(_STREAMED):
        body, trailer = decode_aws_chunks(body)
        given.update(trailer)
        length = headers.get("x-amz-decoded-content-length")
        if length is None:
            raise S3Error(411, "MissingContentLength", "x-amz-decoded-content-length is missing")
        if int(length) != len(body):
            raise S3Error(400, "IncompleteBody", f"{len(body)} of {length} bytes arrived")
    elif "content-length" not in headers and "transfer-encoding" not in headers:
        raise S3Error(411, "MissingContentLength", "Content-Length is missing")
    digest = md5(body, usedforsecurity=False)
    _check(given, body, digest.digest())
    kept = {name: value for name, value in headers.items() if name.startswith(_METADATA)}
    kept["content-type"] = headers.get("content-type", "binary/octet-stream")
    return StoredObject(body, f'"{digest.hexdigest()}"', kept)


def decode_aws_chunks(body: bytes) -> tuple[bytes, dict[str, str]]:
    """Decode an aws-chunked body; return it with the headers that trail it. Raises `S3Error`."""
    parts, at = [], 0
    while True:
        end = body.find(b"\r\n", at)
        try:
            # A signature may follow the length: "400;chunk-signature=...".
            size = int(body[at:end].partition(b";")[0], 16)
        except ValueError:
            raise S3Error(400, "IncompleteBody", "the body is not aws-chunked") from None
        at = end + 2
        if size == 0:
            break
        parts.append(body[at : at + size])
        at += size + 2
    return b"".join(parts), parse_headers(b"\r\n" + body[at:])


def check_conditions(headers: Mapping[str, str], existing: StoredObject | None) -> None:
    """Raise `S3Error` unless If-Match and If-None-Match allow a write over what is there."""
    etag, absent = headers.get("if-match"), headers.get("if-none-match")
    if absent is not None and absent != "*":
        raise S3Error(501, "NotImplemented", "If-None-Match takes * only")
    if etag is not None and existing is None:
        raise S3Error(404, "NoSuchKey", "The specified key does not exist.")
    if absent is not None and existing is not None:
        raise _failed("If-None-Match")
    if etag is not None and existing is not None and etag.strip('"') != existing.etag.strip('"'):
        raise _failed("If-Match")


def _failed(condition: str) -> S3Error:
    text = "At least one of the pre-conditions you specified did not hold"
    return S3Error(412, "PreconditionFailed", f"{text}: {condition}")


def _check(headers: Mapping[str, str], body: bytes, digest: bytes) -> None:
    """Compare the checksums that a request gives with its body's."""
    if "content-md5" in headers and headers["content-md5"] != base64.b64encode(digest).decode():
        raise S3Error(400, "BadDigest", "The Content-MD5 you specified did not match.")
    for name, checksum in _ALGORITHMS.items():
        told = headers.get(_CHECKSUM + name)
        if told is not None and told != base64.b64encode(checksum(body)).decode():
            raise S3Error(400, "BadDigest", f"The {name.upper()} you specified did not match.")


_ALGORITHMS: dict[str, Callable[[bytes], bytes]] = {
    "crc32": lambda body: zlib.crc32(body).to_bytes(4),
    "sha1": lambda body: hashlib.sha1(body, usedforsecurity=False).digest(),
    "sha256": lambda body: hashlib.sha256(body).digest(),
}
"""Checksums that the standard library has. CRC32C and CRC64NVME are accepted unseen."""
