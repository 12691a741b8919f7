"""Refuse a SOURCE that is written in another form, and say the form that is meant."""

from __future__ import annotations

import os
import re
import shlex
from urllib.parse import parse_qs, unquote, urlsplit

from ddbload.errors import InvalidUsage

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/+")
_VIRTUAL_HOST = re.compile(r"(.+)\.s3[.-](?:[a-z0-9.-]+\.)?amazonaws\.com(?:\.cn)?")
_S3_HOST = re.compile(r"s3[.-](?:[a-z0-9.-]+\.)?amazonaws\.com(?:\.cn)?")
_CONSOLE_HOST = re.compile(r"(?:[a-z0-9-]+\.)?console\.(?:aws\.amazon\.com|amazonaws\.cn)")
_S3_ARN = re.compile(r"arn:aws[a-z-]*:s3:::([^/]+)(?:/(.*))?")
_TABLE_ARN = re.compile(r"arn:aws[a-z-]*:dynamodb:([a-z0-9-]*):\d*:table/([^/]+).*")


def refuse_foreign_source(source: str) -> None:
    """Raise `InvalidUsage` for a URL, an ARN or a misspelt s3:// URI that is no local path."""
    if source.startswith("s3://") or os.path.lexists(source):
        return
    if source.startswith("arn:"):
        raise InvalidUsage(f"SOURCE {source} is an ARN: {_of_arn(source)}")
    found = _SCHEME.match(source)
    if found is None or len(found[1]) == 1:
        # A drive of Windows is a single letter.
        return
    scheme, rest = found[1].lower(), source[found.end() :]
    if scheme in ("s3", "s3a", "s3n"):
        raise InvalidUsage(f"SOURCE {source}: write s3://{rest}")
    if scheme == "file":
        _, _, path = source.partition(":")
        path = unquote(path.removeprefix("//").removeprefix("localhost"))
        raise InvalidUsage(f"SOURCE {source} is a URL: write the path alone, {shlex.quote(path)}")
    if scheme in ("http", "https"):
        raise InvalidUsage(f"SOURCE {_without_query(source)} is a URL: {_of_url(source)}")
    raise InvalidUsage(
        f"SOURCE {source}: ddbload reads local files, s3://bucket/key and standard input ('-'), and"
        f" not {scheme}://; copy the data to S3 or to this machine first"
    )


def _of_arn(arn: str) -> str:
    bucket = _S3_ARN.fullmatch(arn)
    if bucket is not None:
        return f"write s3://{bucket[1]}/{bucket[2] or ''}"
    table = _TABLE_ARN.fullmatch(arn)
    if table is not None:
        return f"that of a table, which comes second, by its name: {table[2]}"
    if ":accesspoint" in arn:
        return "an access point is named by its alias, as in s3://ALIAS/key"
    return "write s3://bucket/key"


def _of_url(url: str) -> str:
    """Return the s3:// URI that a URL of S3 means, or how to read another one."""
    parts = urlsplit(url)
    host, path = (parts.hostname or "").lower(), unquote(parts.path.lstrip("/"))
    virtual = _VIRTUAL_HOST.fullmatch(host)
    if virtual is not None:
        return f"write {shlex.quote(f's3://{virtual[1]}/{path}')}"
    if _S3_HOST.fullmatch(host) is not None:
        return f"write {shlex.quote(f's3://{path}')}"
    if _CONSOLE_HOST.fullmatch(host) is not None and path.startswith("s3/"):
        key = parse_qs(parts.query).get("prefix", [""])[0]
        bucket = path.rpartition("/")[2]
        return f"write {shlex.quote(f's3://{bucket}/{key}')}"
    return "ddbload does not fetch it: curl -fsSL URL | ddbload import - TABLE"


def _without_query(url: str) -> str:
    # The query of a presigned URL is a credential.
    return url.partition("?")[0]
