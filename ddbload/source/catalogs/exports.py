"""DynamoDB's own exports to S3: which files belong to one, and whether they are all there.

An export is a folder with `manifest-summary.json`, which is written last and names
`manifest-files.json`, which names the data files, one a line, with how many items each has.
The data of a full export lie in `data/` below the folder, those of an incremental one in
`../data/` beside it. (Amazon DynamoDB Developer Guide, "DynamoDB table export output format".)
Keys in the manifests are those of the bucket that was exported to; a copy elsewhere, in S3 or
on a disk, is read by where its files lie beside the manifest.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.payload import EXPORT_FILES, EXPORT_STARTED, EXPORT_SUMMARY
from ddbload.errors import DamagedExport, UnsupportedFormat
from ddbload.source.byte_source import ByteSource
from ddbload.source.catalogs.manifests import S3_SCHEME
from ddbload.source.decoding.decoded_source import DecodedSource

_ROOT = "AWSDynamoDB/"
_WHOLE = "export again, or copy the whole folder of the export, with both manifests"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of an export, gzip whatever its name."""

    place: str
    """A path or an s3:// URI."""
    items: int | None
    """Lines in it, where the manifest says so."""
    etag: str | None
    """The object's ETag when it was exported; a copy may have another."""


@dataclass(frozen=True, slots=True)
class Export:
    """One finished export."""

    place: str
    """Its folder, ending with `/`."""
    incremental: bool
    table: str | None
    """The ARN of the table that was exported."""
    items: int | None
    files: tuple[DataFile, ...]


def find_exports(names: Iterable[str]) -> list[str]:
    """The folders of the exports among these names, each ending with `/`; in order.

    Also of those that have not ended, failed, or lack a manifest.
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


def is_of_export(place: str) -> bool:
    """Whether this names an export's manifest."""
    return posixpath.basename(place) in (EXPORT_SUMMARY, EXPORT_FILES)


def read_export(place: str, read: Callable[[str], bytes | None]) -> Export:
    """An export by its folder, or by either of its manifests.

    `read`: what is in a file, by its path or s3:// URI; None where there is none.
    Raises `DamagedExport`, and `UnsupportedFormat` for an export in Ion.
    """
    folder = place[: place.rfind("/") + 1] if is_of_export(place) else place.rstrip("/") + "/"
    summary = _summary(folder, read)
    listed = _text(summary, "manifestFilesS3Key", folder + EXPORT_SUMMARY)
    if not listed or posixpath.basename(listed) != EXPORT_FILES:
        raise DamagedExport(f"{folder}{EXPORT_SUMMARY} does not name its {EXPORT_FILES}; {_WHOLE}")
    data = read(folder + EXPORT_FILES)
    if data is None:
        raise DamagedExport(f"{folder} has no {EXPORT_FILES}; {_WHOLE}")
    files = tuple(_files(data, folder, posixpath.dirname(listed)))
    kind = _text(summary, "exportType", folder + EXPORT_SUMMARY) or "FULL_EXPORT"
    if kind not in ("FULL_EXPORT", "INCREMENTAL_EXPORT"):
        raise UnsupportedFormat(f"{folder} is an export of a kind that is not known: {kind}")
    items = _count(summary, "itemCount", folder + EXPORT_SUMMARY)
    _require_all(files, items, folder)
    table = _text(summary, "tableArn", folder + EXPORT_SUMMARY)
    return Export(folder, kind == "INCREMENTAL_EXPORT", table, items, files)


def lost(place: str) -> DamagedExport:
    """For a data file that is not where it should be."""
    return DamagedExport(f"{place}: the export has this data file, and it is not there; {_WHOLE}")


def fewer(place: str, items: int, exported: int) -> DamagedExport:
    """For a data file that does not hold all that it should."""
    return DamagedExport(f"{place} has {items} items, and {exported} were exported to it; {_WHOLE}")


class ExportedFile(DecodedSource):
    """A data file, which has at least as many lines as the manifest says there are items."""

    def __init__(
        self, inner: ByteSource, items: int | None, *, max_expansion: int | None = 200
    ) -> None:
        super().__init__(inner, compression="gzip", max_expansion=max_expansion)
        self._items = items

    def stream(self, start: int, end: int | None, piece_bytes: int) -> Iterator[bytes]:
        """As `Decoded.stream`; raises `DamagedExport` at the end of what was read whole."""
        lines = 0
        last = b"\n"
        for piece in super().stream(start, end, piece_bytes):
            lines += piece.count(b"\n")
            last = piece[-1:]
            yield piece
        lines += last != b"\n"
        if start == 0 and end is None and self._items is not None and lines < self._items:
            raise fewer(self.name, lines, self._items)


def _summary(folder: str, read: Callable[[str], bytes | None]) -> Mapping[str, Any]:
    data = read(folder + EXPORT_SUMMARY)
    if data is None:
        raise DamagedExport(
            f"{folder} has no {EXPORT_SUMMARY}: the export has not ended, failed, or was not copied"
            f" as a whole; {_WHOLE}"
        )
    summary = _object(data, folder + EXPORT_SUMMARY)
    if "outputFormat" not in summary and "exportFormat" not in summary:
        raise DamagedExport(f"{folder}{EXPORT_SUMMARY} does not say the export's format; {_WHOLE}")
    kind = summary.get("outputFormat", summary.get("exportFormat"))
    if kind != "DYNAMODB_JSON":
        raise UnsupportedFormat(
            f"{folder} was exported as {kind!s:.40}; export again as DynamoDB JSON (aws dynamodb"
            " export-table-to-point-in-time --export-format DYNAMODB_JSON)"
        )
    return summary


def _files(data: bytes, folder: str, exported_to: str) -> Iterator[DataFile]:
    place = folder + EXPORT_FILES
    seen: set[str] = set()
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{place}, line {number}"
        entry = _object(line, where)
        key = _text(entry, "dataFileS3Key", where)
        if not key or "\0" in key:
            raise DamagedExport(f"{where} names no data file; {_WHOLE}")
        beside = posixpath.relpath("/" + _without_prefix(key), "/" + _without_prefix(exported_to))
        # What lies beside the export's folder, and nothing else: not a file of this machine.
        if beside.startswith("../../") or beside in (".", ".."):
            raise DamagedExport(f"{where} names a file outside of the export; {_WHOLE}")
        if beside in seen:
            raise DamagedExport(f"{where} names the data file of an earlier line; {_WHOLE}")
        seen.add(beside)
        yield DataFile(
            _join(folder, beside), _count(entry, "itemCount", where), _text(entry, "etag", where)
        )


def _without_prefix(key: str) -> str:
    # The summary's key may lack the prefix that the others have.
    return key[max(0, key.rfind(_ROOT)) :]


def _join(folder: str, beside: str) -> str:
    if not beside.startswith("../"):
        return folder + beside
    above = folder.rstrip("/")
    if above.startswith(S3_SCHEME):
        cut = above.rfind("/") + 1
        # A bucket's root has nothing above it: what lay beside can only have been copied into it.
        above = folder if cut == len(S3_SCHEME) else above[:cut]
        return above + beside.removeprefix("../")
    return posixpath.normpath(folder + beside)


def _require_all(files: tuple[DataFile, ...], items: int | None, folder: str) -> None:
    counts = [file.items for file in files if file.items is not None]
    if items is None or len(counts) < len(files):
        if not files and items is None:
            raise DamagedExport(f"{folder}{EXPORT_FILES} names no data file; {_WHOLE}")
        return
    if sum(counts) != items:
        raise DamagedExport(
            f"{folder}: the files of {EXPORT_FILES} have {sum(counts)} items, and {EXPORT_SUMMARY}"
            f" says {items}; {_WHOLE}"
        )


def _object(data: bytes, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedExport(f"{where} is no JSON; {_WHOLE}") from None
    if not isinstance(found, dict):
        raise DamagedExport(f"{where} is no JSON object; {_WHOLE}")
    return found


def _text(found: Mapping[str, Any], name: str, where: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise DamagedExport(f"{where}: {name} is no text; {_WHOLE}")
    return value


def _count(found: Mapping[str, Any], name: str, where: str) -> int | None:
    value = found.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise DamagedExport(f"{where}: {name} is no number of items; {_WHOLE}")
    return value
