"""Manifests: files that list the sources of a run, in S3 or on a disk."""

from __future__ import annotations

import codecs
import json
import posixpath
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.messages import is_text
from ddbload.errors import BadManifest

S3_SCHEME = "s3://"


def resolve_name(location: str, name: str) -> str:
    """Resolve a name in the file at `location`: relative to its folder unless it is absolute."""
    if name.startswith("/"):
        return name
    folder = location[: location.rfind("/") + 1]
    if not folder.startswith(S3_SCHEME):
        return posixpath.normpath(folder + name)
    # S3 does not normalise keys: `a//b` is another key than `a/b`.
    return folder + name


FORMS = (
    'a manifest is {"entries": [{"url": "s3://bucket/key"}, ...]}, a JSON list of names, or text'
    " with one name a line"
)
MAX_MANIFEST_BYTES = 256 * 1024 * 1024
"""Size limit of a manifest, which is held in memory as a whole."""
MAX_ENTRIES = 1_000_000
"""Files that a manifest may list."""
# An entry has a URL, whether it is mandatory, a size, and perhaps one more value.
_VALUES_PER_ENTRY = 4


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file listed in a manifest."""

    location: str
    """Path or s3:// URI."""
    optional: bool = False
    """True if the file may be missing: the manifest says `"mandatory": false`."""
    size: int | None = None
    """Bytes; None if the manifest does not say."""


def read_manifest(data: bytes, location: str) -> tuple[ManifestEntry, ...]:
    """Parse a manifest; `location` is its path or s3:// URI. Keeps the order of the entries.

    Raises `BadManifest` for another form, no entries, a file listed twice, and, in a manifest in
    S3, a path of a machine.
    """
    is_json = data.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")
    if not is_json and data.count(b"\n") + data.count(b"\r") > 2 * MAX_ENTRIES:
        raise _too_many(location)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadManifest(f"{location} is not text in UTF-8; {FORMS}") from None
    entries = _json_entries(text, location) if text.lstrip()[:1] in ("{", "[") else _lines(text)
    if len(entries) > MAX_ENTRIES:
        raise _too_many(location)
    found: dict[str, ManifestEntry] = {}
    for number, entry in enumerate(entries, 1):
        resolved = _resolve(entry, number, location)
        if resolved.location in found:
            raise BadManifest(
                f"{location} names {resolved.location} twice, the second time as {number}."
            )
        found[resolved.location] = resolved
    if not found:
        raise BadManifest(f"{location} names no file; {FORMS}")
    return tuple(found.values())


def _too_many(location: str) -> BadManifest:
    return BadManifest(
        f"{location} lists more than {MAX_ENTRIES:,} files; split it, and import each part"
    )


def _lines(text: str) -> list[ManifestEntry]:
    # Not splitlines: a name may contain one of Unicode's other line separators.
    lines = [line.strip(" \t\r") for line in text.replace("\r", "\n").split("\n")]
    return [ManifestEntry(line) for line in lines if line]


def _json_entries(text: str, location: str) -> list[ManifestEntry]:
    # Counted first: 256 MiB of short values take gigabytes once they are parsed.
    if text.count(",") > MAX_ENTRIES * _VALUES_PER_ENTRY:
        raise _too_many(location)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        hint = ""
        if '"dataFileS3Key"' in text:
            hint = "; for a DynamoDB table export, name its folder"
        raise BadManifest(
            f"{location} begins like JSON and is not valid JSON{hint}; {FORMS}"
        ) from None
    if isinstance(found, dict):
        found = found.get("entries")
    if not isinstance(found, list):
        raise BadManifest(f"{location} has no list of names; {FORMS}")
    return [_entry(one, number, location) for number, one in enumerate(found, 1)]


def _entry(found: Any, number: int, location: str) -> ManifestEntry:
    if isinstance(found, str):
        return ManifestEntry(found)
    if not isinstance(found, dict) or not isinstance(found.get("url"), str):
        raise BadManifest(f'{location}: entry {number} has no "url"; {FORMS}')
    mandatory = found.get("mandatory", True)
    if not isinstance(mandatory, bool):
        raise BadManifest(f'{location}: "mandatory" of entry {number} is neither true nor false')
    meta = found.get("meta")
    size = meta.get("content_length") if isinstance(meta, dict) else None
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise BadManifest(
            f'{location}: "content_length" of entry {number} is not a number of bytes'
        )
    return ManifestEntry(found["url"], optional=not mandatory, size=size)


def _resolve(entry: ManifestEntry, number: int, location: str) -> ManifestEntry:
    name = entry.location
    where = f"{location}: entry {number}"
    if not name or "\0" in name or name.endswith("/"):
        raise BadManifest(f"{where} names no file")
    if not is_text(name):
        raise BadManifest(
            f"{where} has a lone surrogate in its name, which UTF-8 cannot write: correct it"
        )
    if name.startswith(S3_SCHEME):
        bucket, _, key = name.removeprefix(S3_SCHEME).partition("/")
        if not bucket or not key:
            raise BadManifest(f"{where} is not s3://bucket/key")
        return entry
    if location.startswith(S3_SCHEME) and name.startswith(("/", "./", "../")):
        raise BadManifest(f"{where} is a file of some machine; in S3, a manifest names objects")
    return ManifestEntry(resolve_name(location, name), entry.optional, entry.size)
