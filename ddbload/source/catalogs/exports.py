"""DynamoDB table exports in S3: their data files, and a check that none is missing.

DynamoDB writes `manifest-summary.json` last. It names `manifest-files.json`, which lists the data
files and their item counts, one a line. Data files of a full export are in `data/` below the
export's folder, those of an incremental export in `../data/` beside it. (Amazon DynamoDB
Developer Guide, "DynamoDB table export output format".) The manifests give keys in the bucket of
the export; in a copy, in S3 or on a disk, files are found relative to the manifest.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.chunks import SeekPoint
from ddbload.contracts.messages import is_text
from ddbload.contracts.source import (
    DEFAULT_MAX_EXPANSION,
    EXPORT_FILES,
    EXPORT_STARTED,
    EXPORT_SUMMARY,
    GZIP,
)
from ddbload.errors import DamagedExport, UnsupportedFormat
from ddbload.source.byte_source import ByteSource
from ddbload.source.catalogs.manifests import MAX_ENTRIES, S3_SCHEME
from ddbload.source.decoding.decoded_source import DecodedSource

_ROOT = "AWSDynamoDB/"
_MAX_OBJECT_BYTES = 1024 * 1024
"""Bytes of a summary, or of a data file's entry; DynamoDB's have less than 2 KB."""
_ADVICE = "export again, or copy the whole folder of the export, with both manifests"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of an export: always gzip, whatever its name."""

    location: str
    """Path or s3:// URI."""
    items: int | None
    """Number of lines; None if the manifest does not say."""
    etag: str | None
    """ETag of the exported object; a copy may have another."""


@dataclass(frozen=True, slots=True)
class Export:
    """One finished export."""

    folder: str
    """Path or s3:// URI of the export's folder, ending with `/`."""
    incremental: bool
    table: str | None
    """ARN of the exported table."""
    items: int | None
    files: tuple[DataFile, ...]


def find_exports(names: Iterable[str]) -> list[str]:
    """Find the folders of exports among file names; sorted, each ending with `/`.

    Includes exports that are running, have failed, or lack a manifest.
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


def is_export_manifest(location: str) -> bool:
    """Tell whether a path or URI names a manifest of an export."""
    return posixpath.basename(location) in (EXPORT_SUMMARY, EXPORT_FILES)


def read_export(location: str, read: Callable[[str], bytes | None]) -> Export:
    """Read an export, given its folder or either of its manifests.

    `read` returns the content of a path or s3:// URI, or None if there is no such file. Raises
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
    _require_all(files, items, folder)
    table = _text(summary, "tableArn", folder + EXPORT_SUMMARY)
    return Export(folder, kind == "INCREMENTAL_EXPORT", table, items, files)


def missing_data_file(location: str) -> DamagedExport:
    """Make the error for a data file that does not exist."""
    return DamagedExport(f"{location}: this data file of the export does not exist; {_ADVICE}")


def incomplete_data_file(location: str, items: int, exported: int) -> DamagedExport:
    """Make the error for a data file with fewer items than were exported."""
    return DamagedExport(
        f"{location} has {items} items, and {exported} were exported to it; {_ADVICE}"
    )


class ExportedFile(DecodedSource):
    """Content of a data file, checked to have a line for each item of the manifest."""

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
        """False: all lines are counted in one pass."""
        return False

    def _decode(self, start: SeekPoint | None) -> Iterator[bytes]:
        """Decode from the beginning. Raises `DamagedExport` at the end, if lines are missing."""
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


def _files(data: bytes, folder: str, exported_to: str) -> Iterator[DataFile]:
    location = folder + EXPORT_FILES
    # Counted first: each line takes many times its bytes once it is parsed.
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
        # A manifest must not reach files elsewhere on this machine or in the bucket.
        if beside.startswith("../../") or beside in (".", ".."):
            raise DamagedExport(f"{where} names a file outside of the export; {_ADVICE}")
        if beside in seen:
            raise DamagedExport(f"{where} names the data file of an earlier line; {_ADVICE}")
        seen.add(beside)
        yield DataFile(
            _join(folder, beside), _count(entry, "itemCount", where), _text(entry, "etag", where)
        )


def _without_prefix(key: str) -> str:
    # The key in the summary may lack the export's prefix, which the other keys have.
    return key[max(0, key.rfind(_ROOT)) :]


def _join(folder: str, beside: str) -> str:
    if not beside.startswith("../"):
        return folder + beside
    above = folder.rstrip("/")
    if above.startswith(S3_SCHEME):
        cut = above.rfind("/") + 1
        # Nothing is above a bucket's root, so a copy has the sibling folder in the root.
        above = folder if cut == len(S3_SCHEME) else above[:cut]
        return above + beside.removeprefix("../")
    return posixpath.normpath(folder + beside)


def _require_all(files: tuple[DataFile, ...], items: int | None, folder: str) -> None:
    counts = [file.items for file in files if file.items is not None]
    if items is None or len(counts) < len(files):
        if not files and items is None:
            raise DamagedExport(f"{folder}{EXPORT_FILES} names no data file; {_ADVICE}")
        return
    if sum(counts) != items:
        raise DamagedExport(
            f"{folder}: the files of {EXPORT_FILES} have {sum(counts)} items, and {EXPORT_SUMMARY}"
            f" says {items}; {_ADVICE}"
        )


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
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise DamagedExport(f"{where}: {name} is not a number of items; {_ADVICE}")
    return value
