"""Say what is likely meant by a path or key that does not exist."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from ddbload.errors import SourceNotFound, nearest_name

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_LISTED = 1000
"""Entries of a folder, or objects of a prefix, that are compared with what is missing."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_QUOTES = "'\"`\u2018\u2019\u201c\u201d"


def missing_file(path: str, what: str = "no such file") -> SourceNotFound:
    """Make the error of a path that does not exist, with what is likely meant by it."""
    return SourceNotFound(f"{path}: {what}{_advice(path)}")


def _advice(path: str) -> str:
    if path[:1] in _QUOTES and path[-1:] in _QUOTES:
        return "; the quotes are part of the name: leave them out"
    if path.startswith("~"):
        return "; the shell replaces ~ only outside quotes: leave them out, or write the whole path"
    if path != path.strip() and os.path.exists(path.strip()):  # noqa: PTH110
        return "; there is one without the spaces around it"
    if _DRIVE.match(path) or ("\\" in path and "/" not in path):
        return (
            "; this is a path of Windows: write it as Linux and macOS do, such as"
            " /mnt/c/data/books.csv in WSL"
        )
    folder, name = os.path.split(path)
    try:
        names = [each.name for each in islice(os.scandir(folder or "."), _LISTED)]
    except OSError:
        return f"; there is no folder {folder} either" if folder else ""
    near = _nearest_file(name, names)
    return "" if near is None else f"; did you mean {os.path.join(folder, near)!r}?"  # noqa: PTH118


def _nearest_file(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar file name. What follows the first dot would make all alike."""
    by_stem: dict[str, list[str]] = {}
    for each in sorted(names):
        by_stem.setdefault(each.partition(".")[0], []).append(each)
    stem = nearest_name(name.partition(".")[0], by_stem)
    if stem is None:
        return None
    return nearest_name(name, by_stem[stem]) or by_stem[stem][0]


def missing_object(client: S3Client, bucket: str, key: str, extra: str = "") -> SourceNotFound:
    """Make the error of an object that does not exist, with what is likely meant by it.

    HEAD does not say whether the bucket exists, so the bucket is asked. That helps where it may
    be listed, and its errors are ignored.
    """
    name = f"s3://{bucket}/{key}"
    told = f"{name}: no such object{extra}"
    if extra:
        return SourceNotFound(told)
    advice = ""
    with suppress(Exception):
        advice = _advice_of_bucket(client, bucket, key)
    return SourceNotFound(f"{told}{advice}")


def _advice_of_bucket(client: S3Client, bucket: str, key: str) -> str:
    try:
        below = client.list_objects_v2(Bucket=bucket, Prefix=f"{key}/", MaxKeys=1)
    except Exception as error:
        response: Any = getattr(error, "response", None) or {}
        if response.get("Error", {}).get("Code") == "NoSuchBucket":
            return f", because there is no bucket {bucket}: check its name"
        raise
    if below.get("Contents"):
        return f", and there are objects below it: s3://{bucket}/{key}/ names all of them"
    if key.startswith("/"):
        return "; the key begins with a slash: write one slash after the bucket"
    folder = key[: key.rfind("/") + 1]
    page = client.list_objects_v2(Bucket=bucket, Prefix=folder, Delimiter="/", MaxKeys=_LISTED)
    keys = [each["Key"] for each in page.get("Contents", ())]
    names = {posixpath.basename(each): each for each in keys if not each.endswith("/")}
    near = _nearest_file(posixpath.basename(key), names)
    return "" if near is None else f"; did you mean s3://{bucket}/{names[near]}?"
