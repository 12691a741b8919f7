"""Names beside a name, in S3 and on a disk alike."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass
from typing import Any

from ddbload.errors import BadManifest

S3_SCHEME = "s3://"


def relative_to(place: str, name: str) -> str:
    """What `name` is, where the file `place` names it: in the same folder, if nothing else."""
    if name.startswith("/"):
        return name
    folder = place[: place.rfind("/") + 1]
    if not folder.startswith(S3_SCHEME):
        return posixpath.normpath(folder + name)
    # Not normal forms: S3 takes a key as it is, and `a//b` for another than `a/b`.
    return folder + name


FORMS = (
    'a manifest is {"entries": [{"url": "s3://bucket/key"}, ...]}, a JSON list of names, or text'
    " with one name a line"
)
MOST_BYTES = 256 * 1024 * 1024
"""The largest manifest that is read: it is held as a whole."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file that a manifest names."""

    place: str
    """A path or an s3:// URI."""
    optional: bool = False
    """Whether it may be missing: only where the manifest says `"mandatory": false`."""
    size: int | None = None
    """Bytes, where the manifest says so."""


def read_manifest(data: bytes, place: str) -> tuple[ManifestEntry, ...]:
    """What a manifest names, in its order. `place` is its own path or s3:// URI.

    Raises `BadManifest`: of another form, naming nothing, a file twice, or, in S3, a file of
    some machine.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadManifest(f"{place} is no text in UTF-8; {FORMS}") from None
    entries = _json_entries(text, place) if text.lstrip()[:1] in ("{", "[") else _lines(text)
    found: dict[str, ManifestEntry] = {}
    for number, entry in enumerate(entries, 1):
        whole = _whole(entry, number, place)
        if whole.place in found:
            raise BadManifest(f"{place} names {whole.place} twice, the second time as {number}.")
        found[whole.place] = whole
    if not found:
        raise BadManifest(f"{place} names no file; {FORMS}")
    return tuple(found.values())


def _lines(text: str) -> list[ManifestEntry]:
    # Not splitlines: a name may hold what Unicode takes for the end of a line.
    lines = [line.strip(" \t\r") for line in text.replace("\r", "\n").split("\n")]
    return [ManifestEntry(line) for line in lines if line]


def _json_entries(text: str, place: str) -> list[ManifestEntry]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        hint = ""
        if '"dataFileS3Key"' in text:
            hint = "; for a DynamoDB table export, name its folder"
        raise BadManifest(f"{place} begins like JSON and is none{hint}; {FORMS}") from None
    if isinstance(found, dict):
        found = found.get("entries")
    if not isinstance(found, list):
        raise BadManifest(f"{place} has no list of names; {FORMS}")
    return [_entry(one, number, place) for number, one in enumerate(found, 1)]


def _entry(found: Any, number: int, place: str) -> ManifestEntry:
    if isinstance(found, str):
        return ManifestEntry(found)
    if not isinstance(found, dict) or not isinstance(found.get("url"), str):
        raise BadManifest(f'{place}: entry {number} has no "url"; {FORMS}')
    mandatory = found.get("mandatory", True)
    if not isinstance(mandatory, bool):
        raise BadManifest(f'{place}: "mandatory" of entry {number} is neither true nor false')
    meta = found.get("meta")
    size = meta.get("content_length") if isinstance(meta, dict) else None
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise BadManifest(f'{place}: "content_length" of entry {number} is no number of bytes')
    return ManifestEntry(found["url"], optional=not mandatory, size=size)


def _whole(entry: ManifestEntry, number: int, place: str) -> ManifestEntry:
    name = entry.place
    where = f"{place}: entry {number}"
    if not name or "\0" in name or name.endswith("/"):
        raise BadManifest(f"{where} names no file")
    if name.startswith(S3_SCHEME):
        bucket, _, key = name.removeprefix(S3_SCHEME).partition("/")
        if not bucket or not key:
            raise BadManifest(f"{where} is no s3://bucket/key")
        return entry
    if place.startswith(S3_SCHEME) and name.startswith(("/", "./", "../")):
        raise BadManifest(f"{where} is a file of some machine; in S3, a manifest names objects")
    return ManifestEntry(relative_to(place, name), entry.optional, entry.size)
