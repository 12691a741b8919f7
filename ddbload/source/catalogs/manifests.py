"""Manifests: a user's list of files, or that of a DynamoDB table export, in S3 or on a disk.

DynamoDB writes `manifest-summary.json` last. It names `manifest-files.json`, which lists the data
files and their item counts, one per line. Data files of a full export are in `data/` below the
export's folder, those of an incremental export in `../data/` beside it ("DynamoDB table export
output format" in the Amazon DynamoDB Developer Guide). The manifests hold keys in the export's
bucket; in a copy, in S3 or on a disk, files are found relative to the manifest.
"""

from __future__ import annotations

import codecs
import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ddbload.contracts.chunks import SeekPoint
from ddbload.contracts.messages import is_text
from ddbload.contracts.source import (
    DEFAULT_MAX_EXPANSION,
    EXPORT_FILES,
    EXPORT_STARTED,
    EXPORT_SUMMARY,
    GZIP,
    is_export_manifest,
)
from ddbload.errors import BadManifest, DamagedExport, UnsupportedFormat
from ddbload.records import Record
from ddbload.source.decoding.decoded_source import ByteSource, DecodedSource

S3_SCHEME = "s3://"


FORMS = (
    'a manifest is {"entries": [{"url": "s3://bucket/key"}, ...]}, a JSON list of names, or text'
    " with one name a line"
)
MAX_MANIFEST_BYTES = 256 * 1024 * 1024
"""Maximum size of a manifest, which is held in memory as a whole."""
MAX_ENTRIES = 1_000_000
"""Maximum number of files in a manifest."""
# An entry has `url`, `mandatory`, a size, and perhaps one more value.
_VALUES_PER_ENTRY = 4


class ListedFile(Record):
    """One file listed in a manifest."""

    location: str
    """Path or s3:// URI."""
    optional: bool = False
    """True if the file may be missing, because the manifest has `"mandatory": false`."""
    size: int | None = None
    """Size in bytes; None if the manifest does not contain it."""
    items: int | None = None
    """Number of items in a data file of an export; None if the manifest does not contain it."""


def read_manifest(data: bytes, location: str) -> tuple[ListedFile, ...]:
    """Parse a manifest; return its entries in order. `location`: its path or s3:// URI.

    Raises `BadManifest` for an unknown form, a manifest without entries, a file listed twice, and a
    local path in a manifest in S3.
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
    found: dict[str, ListedFile] = {}
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


def _lines(text: str) -> list[ListedFile]:
    # Not splitlines: a name may contain one of Unicode's other line separators.
    lines = [line.strip(" \t\r") for line in text.replace("\r", "\n").split("\n")]
    return [ListedFile(line) for line in lines if line]


def _json_entries(text: str, location: str) -> list[ListedFile]:
    # Count entries before parsing: 256 MiB of short values would take gigabytes once parsed.
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


def _entry(found: Any, number: int, location: str) -> ListedFile:
    if isinstance(found, str):
        return ListedFile(found)
    if not isinstance(found, dict) or not isinstance(found.get("url"), str):
        raise BadManifest(f'{location}: entry {number} has no "url"; {FORMS}')
    mandatory = found.get("mandatory", True)
    if not isinstance(mandatory, bool):
        raise BadManifest(f'{location}: "mandatory" of entry {number} is neither true nor false')
    meta = found.get("meta")
    size = meta.get("content_length") if isinstance(meta, dict) else None
    if not _is_count(size):
        raise BadManifest(
            f'{location}: "content_length" of entry {number} is not a number of bytes'
        )
    return ListedFile(found["url"], optional=not mandatory, size=size)


def _resolve(entry: ListedFile, number: int, location: str) -> ListedFile:
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
    folder = location[: location.rfind("/") + 1]
    if not name.startswith("/"):
        # S3 does not normalise keys: `a//b` is another key than `a/b`.
        is_remote, name = folder.startswith(S3_SCHEME), folder + name
        name = name if is_remote else posixpath.normpath(name)
    return ListedFile(name, entry.optional, entry.size)


# Exports of tables.

_ROOT = "AWSDynamoDB/"
_MAX_OBJECT_BYTES = 1024 * 1024
"""Maximum bytes of a summary or of a data file's entry; DynamoDB's have less than 2 KB."""
_ADVICE = "export again, or copy the whole folder of the export, with both manifests"


def find_exports(names: Iterable[str]) -> list[str]:
    """Find the folders of exports among file names; return them sorted, each ending with `/`.

    Includes exports that are in progress, have failed, or lack a manifest.
    """
    found, started, with_data = set[str](), set[str](), set[str]()
    for name in names:
        cut = name.rfind("/") + 1
        folder, file = name[:cut], name[cut:]
        if file in (EXPORT_SUMMARY, EXPORT_FILES):
            found.add(folder)
        elif file == EXPORT_STARTED:
            started.add(folder)
        elif folder.endswith("/data/"):
            with_data.add(folder.removesuffix("data/"))
    return sorted(found | (started & with_data))


def read_export(location: str, read: Callable[[str], bytes | None]) -> tuple[ListedFile, ...]:
    """Read the list of data files of an export, given its folder or either of its manifests.

    `read` returns the content of a path or s3:// URI, or None if it does not exist. Raises
    `DamagedExport`, and `UnsupportedFormat` for an export in Amazon Ion.
    """
    folder = (
        location[: location.rfind("/") + 1]
        if is_export_manifest(location)
        else location.rstrip("/") + "/"
    )
    summary = _summary(folder, read)
    listed = _text(summary, "manifestFilesS3Key", folder + EXPORT_SUMMARY)
    if not listed or posixpath.basename(listed) != EXPORT_FILES:
        raise DamagedExport(f"{folder}{EXPORT_SUMMARY} does not name its {EXPORT_FILES}; {_ADVICE}")
    data = read(folder + EXPORT_FILES)
    if data is None:
        raise DamagedExport(f"{folder} has no {EXPORT_FILES}; {_ADVICE}")
    files = tuple(_files(data, folder, posixpath.dirname(listed)))
    kind = _text(summary, "exportType", folder + EXPORT_SUMMARY) or "FULL_EXPORT"
    if kind not in ("FULL_EXPORT", "INCREMENTAL_EXPORT"):
        raise UnsupportedFormat(f"{folder} is an export of an unknown type: {kind}")
    items = _count(summary, "itemCount", folder + EXPORT_SUMMARY)
    if items is None and not files:
        raise DamagedExport(f"{folder}{EXPORT_FILES} names no data file; {_ADVICE}")
    counts = [file.items for file in files if file.items is not None]
    if items is not None and len(counts) == len(files) and sum(counts) != items:
        raise DamagedExport(
            f"{folder}: the files of {EXPORT_FILES} have {sum(counts)} items, and {EXPORT_SUMMARY}"
            f" says {items}; {_ADVICE}"
        )
    return files


def missing_data_file(location: str) -> DamagedExport:
    """Return the error for a data file that does not exist."""
    return DamagedExport(f"{location}: this data file of the export does not exist; {_ADVICE}")


def incomplete_data_file(location: str, items: int, exported: int) -> DamagedExport:
    """Return the error for a data file with fewer items than were exported."""
    return DamagedExport(
        f"{location} has {items} items, and {exported} were exported to it; {_ADVICE}"
    )


class ExportedFile(DecodedSource):
    """Content of an export's data file, verified to have as many lines as the manifest has items.

    Always decompressed as gzip, whatever its name.
    """

    def __init__(
        self,
        inner: ByteSource,
        items: int | None,
        *,
        max_expansion: int | None = DEFAULT_MAX_EXPANSION,
    ) -> None:
        super().__init__(inner, compression=GZIP, max_expansion=max_expansion)
        self._items = items

    @property
    def has_seek_points(self) -> bool:
        """Always false: all lines are counted in one pass."""
        return False

    def _decode(self, start: SeekPoint | None) -> Iterator[bytes]:
        """Decode from the beginning. Raises `DamagedExport` at the end if lines are missing."""
        lines = 0
        last = b"\n"
        for piece in super()._decode(start):
            lines += piece.count(b"\n")
            last = piece[-1:]
            yield piece
        lines += last != b"\n"
        if self._items is not None and lines < self._items:
            raise incomplete_data_file(self.name, lines, self._items)


def _summary(folder: str, read: Callable[[str], bytes | None]) -> Mapping[str, Any]:
    data = read(folder + EXPORT_SUMMARY)
    if data is None:
        raise DamagedExport(
            f"{folder} has no {EXPORT_SUMMARY}: the export has not ended, failed, or was not copied"
            f" as a whole; {_ADVICE}"
        )
    summary = _object(data, folder + EXPORT_SUMMARY)
    if "outputFormat" not in summary and "exportFormat" not in summary:
        raise DamagedExport(f"{folder}{EXPORT_SUMMARY} does not say the export's format; {_ADVICE}")
    kind = summary.get("outputFormat", summary.get("exportFormat"))
    if kind != "DYNAMODB_JSON":
        raise UnsupportedFormat(
            f"{folder} was exported as {kind!s:.40}; export again as DynamoDB JSON (aws dynamodb"
            " export-table-to-point-in-time --export-format DYNAMODB_JSON)"
        )
    return summary


def _files(data: bytes, folder: str, exported_to: str) -> Iterator[ListedFile]:
    location = folder + EXPORT_FILES
    # Count lines before parsing, because a parsed line takes many times its bytes.
    if data.count(b"\n") > MAX_ENTRIES or data.count(b"\r") > MAX_ENTRIES:
        raise DamagedExport(f"{location} lists more than {MAX_ENTRIES:,} files")
    seen: set[str] = set()
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{location}, line {number}"
        entry = _object(line, where)
        key = _text(entry, "dataFileS3Key", where)
        if not key or "\0" in key:
            raise DamagedExport(f"{where} names no data file; {_ADVICE}")
        beside = posixpath.relpath("/" + _without_prefix(key), "/" + _without_prefix(exported_to))
        # A manifest must not give access to other files on this machine or in the bucket.
        if beside.startswith("../../") or beside in (".", ".."):
            raise DamagedExport(f"{where} names a file outside of the export; {_ADVICE}")
        if beside in seen:
            raise DamagedExport(f"{where} names the data file of an earlier line; {_ADVICE}")
        seen.add(beside)
        yield ListedFile(_join(folder, beside), items=_count(entry, "itemCount", where))


def _without_prefix(key: str) -> str:
    # Unlike the other keys, the key in the summary may lack the export's prefix.
    return key[max(0, key.rfind(_ROOT)) :]


def _join(folder: str, beside: str) -> str:
    if not beside.startswith("../"):
        return folder + beside
    above = folder.rstrip("/")
    if above.startswith(S3_SCHEME):
        cut = above.rfind("/") + 1
        # A bucket's root has no parent, so a copy has the sibling folder in the root.
        above = folder if cut == len(S3_SCHEME) else above[:cut]
        return above + beside.removeprefix("../")
    return posixpath.normpath(folder + beside)


def _object(data: bytes, where: str) -> Mapping[str, Any]:
    if len(data) > _MAX_OBJECT_BYTES:
        raise DamagedExport(f"{where} has {len(data):,} bytes, and no export writes as many")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedExport(f"{where} is not JSON; {_ADVICE}") from None
    if not isinstance(found, dict):
        raise DamagedExport(f"{where} is not a JSON object; {_ADVICE}")
    return found


def _text(found: Mapping[str, Any], name: str, where: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise DamagedExport(f"{where}: {name} is not text; {_ADVICE}")
    if value is not None and not is_text(value):
        raise DamagedExport(f"{where}: {name} has a lone surrogate in it; {_ADVICE}")
    return value


def _count(found: Mapping[str, Any], name: str, where: str) -> int | None:
    value = found.get(name)
    if not _is_count(value):
        raise DamagedExport(f"{where}: {name} is not a number of items; {_ADVICE}")
    return value


def _is_count(value: Any) -> bool:
    """Return whether an optional value is None or a non-negative integer."""
    return value is None or (type(value) is int and value >= 0)
