"""Buckets that a deployment may read, and the terms of requests to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ddbload.contracts.messages import JsonObjectReader, JsonRule, Message

_ACCOUNT = re.compile(r"[0-9]{12}", re.ASCII)


def _read_prefix(f: JsonObjectReader) -> str:
    prefix = f.raw("prefix", "")
    if not isinstance(prefix, str) or "*" in prefix or "?" in prefix:
        # IAM's policies would take these for wildcards.
        raise f.wrong("prefix", prefix, "plain text that keys begin with ('' for all)")
    return prefix


def _read_owner(f: JsonObjectReader) -> str | None:
    owner = f.optional_text("owner")
    if owner is not None and not _ACCOUNT.fullmatch(owner):
        raise f.wrong("owner", owner, "the 12 digits of an account, as text")
    return owner


@dataclass(frozen=True, slots=True)
class SourceBucket(Message):
    """Bucket that may be read, or its keys with one prefix."""

    PATH = "source_bucket"
    WRITTEN_BY_USERS = True

    bucket: str
    prefix: Annotated[str, JsonRule(read=_read_prefix)] = ""
    owner: Annotated[str | None, JsonRule(read=_read_owner)] = None
    """Account that must own the bucket; None for any."""
    requester_pays: bool = False
    """True if ddbload's account agrees to pay for its requests."""

    @property
    def location(self) -> str:
        """The bucket, and the prefix if there is one."""
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket

    def covers(self, bucket: str, name: str) -> bool:
        """Tell whether a key, or a listing's prefix, lies in the part that may be read."""
        return bucket == self.bucket and name.startswith(self.prefix)

    def to_text(self) -> str:
        """Return the entry of an environment variable, without commas."""
        terms: dict[str, Any] = {"owner": self.owner, "requester_pays": self.requester_pays}
        given = urlencode({name: str(value) for name, value in terms.items() if value})
        # The bucket is not quoted: at synthesis it may be a token of CDK.
        prefix = f"/{quote(self.prefix)}" if self.prefix else ""
        return f"{self.bucket}{prefix}?{given}" if given else f"{self.bucket}{prefix}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `to_text` made."""
        location, _, terms = text.partition("?")
        bucket, _, prefix = location.partition("/")
        given = dict(parse_qsl(terms))
        return cls(bucket, unquote(prefix), given.get("owner"), "requester_pays" in given)
