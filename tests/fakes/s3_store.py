"""Content of FakeS3: buckets, keys and their versions."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.client import refused

PRECONDITION = "At least one of the pre-conditions you specified did not hold"
MAX_KEY_BYTES = 1024


@dataclass
class Version:
    """One version of a key; ``data`` is empty in a delete marker."""

    version_id: str
    data: bytes
    modified: datetime
    is_delete_marker: bool = False
    headers: dict[str, Any] = field(default_factory=dict)

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'

    def listed(self, key: str) -> dict[str, Any]:
        """One entry of a listing."""
        return {
            "Key": key,
            "LastModified": self.modified,
            "ETag": self.etag,
            "Size": len(self.data),
            "StorageClass": "STANDARD",
        }


def moment(number: int) -> datetime:
    """Return the time of the write of this number: each takes a second."""
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=number)


@dataclass
class Bucket:
    """A bucket's keys and versions, oldest first. ``versioning``: Enabled, Suspended or None."""

    versioning: str | None = None
    keys: dict[str, list[Version]] = field(default_factory=dict)

    def current(self, key: str) -> Version | None:
        versions = self.keys.get(key)
        return versions[-1] if versions and not versions[-1].is_delete_marker else None

    def add(self, key: str, data: bytes | None, headers: dict[str, Any], number: int) -> Version:
        """Append a version, or a delete marker without ``data``; ``number`` is never reused."""
        if len(key.encode()) > MAX_KEY_BYTES:
            raise refused("KeyTooLongError", 400, "Your key is too long")
        # A version id is opaque and may hold . and _; without versioning every version is "null".
        name = base64.b64encode(hashlib.sha256(b"%d" % number).digest()[:24], b"._").decode()
        version = Version(
            version_id=name if self.versioning == "Enabled" else "null",
            data=data or b"",
            modified=moment(number),
            is_delete_marker=data is None,
            headers=headers,
        )
        versions = self.keys.setdefault(key, [])
        if version.version_id == "null":
            versions[:] = [kept for kept in versions if kept.version_id != "null"]
        versions.append(version)
        return version

    def remove(self, key: str, version_id: str) -> bool:
        """Forget one version. True if it was a delete marker."""
        versions = self.keys.get(key, [])
        gone = [version for version in versions if version.version_id == version_id]
        versions[:] = [version for version in versions if version.version_id != version_id]
        return any(version.is_delete_marker for version in gone)

    def find(self, key: str, version_id: str | None) -> Version:
        """Find the version to read. Raises Refused if it does not exist."""
        if version_id is None:
            current = self.current(key)
            if current is None:
                raise refused("NoSuchKey", 404, "The specified key does not exist.", Key=key)
            return current
        for version in self.keys.get(key, []):
            if version.version_id == version_id:
                if version.is_delete_marker:
                    message = "The specified method is not allowed against this resource."
                    raise refused("MethodNotAllowed", 405, message, Method="GET")
                return version
        raise refused("NoSuchVersion", 404, "The specified version does not exist.", Key=key)

    def page(
        self, prefix: str, after: str, most: int, delimiter: str = ""
    ) -> tuple[list[dict[str, Any]], str | None]:
        """List up to ``most`` entries after the key ``after``; also the key to continue after.

        Keys with the same text up to ``delimiter`` behind the prefix are one entry.
        """
        # S3 orders keys by their UTF-8 bytes.
        entries: list[dict[str, Any]] = []
        last = ""
        for key in sorted(self.keys, key=str.encode):
            version = self.current(key)
            if version is None or not key.startswith(prefix) or key.encode() <= after.encode():
                continue
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            folder = {"Prefix": key[: end + len(delimiter)]} if end >= 0 else None
            if folder is not None and entries and entries[-1] == folder:
                last = key
                continue
            if len(entries) == most:
                return entries, last if most else None
            entries.append(folder or version.listed(key))
            last = key
        return entries, None


def span(header: str | None, size: int) -> tuple[int, int] | None:
    """Parse a Range header for an object of ``size`` bytes into start and end.

    None if S3 ignores the header and sends everything (RFC 9110, 14.2). Raises Refused
    (InvalidRange) if the object has no byte in the range.
    """
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", header or "")
    if not match or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if first and last and int(first) > int(last):
        return None
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last) + 1, size) if first and last else size
    if start >= size:
        raise refused(
            "InvalidRange",
            416,
            "The requested range is not satisfiable",
            RangeRequested=str(header),
            ActualObjectSize=str(size),
        )
    return start, end


def token_for(key: str) -> str:
    """Make the continuation token of a page that ended with ``key``."""
    return base64.b64encode(key.encode()).decode()


def key_of(token: str) -> str:
    """Read the key in a continuation token. Raises Refused (InvalidArgument) for another one."""
    try:
        return base64.b64decode(token, validate=True).decode()
    except ValueError as error:
        raise refused(
            "InvalidArgument", 400, "The continuation token provided is incorrect"
        ) from error
