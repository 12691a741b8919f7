"""Members of ZIP archives as byte sources in the form of gzip, by ranged reads.

Deflated data are put between a header and a trailer of gzip, stored data are framed as stored
blocks of DEFLATE besides (RFC 1951, 3.2.4). So checksums, seek points and the limit of expansion
are those of gzip.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any

from ddbload.errors import DamagedCompression, SourceNotFound, UnsupportedFormat
from ddbload.rows.file_signatures import SPREADSHEET, compression_by_name
from ddbload.source.decoding.decoded_source import ByteSource, slice_pieces

_TAIL_BYTES = 128 * 1024
"""Bytes at an archive's end that are read at once: the end record, and usually the directory."""
_MOST_DIRECTORY_BYTES = 16 * 1024 * 1024
"""Largest directory, which is held in memory: that of about 200,000 members."""
_ENCRYPTED, _PATCHED = 0x01, 0x20
_METHODS = {9: "Deflate64", 12: "bzip2", 14: "LZMA", 20: "Zstandard", 93: "Zstandard", 95: "xz"}
_MOST_BYTES_OF_NOTHING = 16
_DOCUMENTS = {
    "[Content_Types].xml": SPREADSHEET,
    "mimetype": SPREADSHEET,
    "META-INF/MANIFEST.MF": "a program (.jar); name the file with the data",
}
"""Members that archives of other programs have."""
_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
_LOCAL_SIGNATURE, _LOCAL_BYTES = b"PK\x03\x04", 30
_BLOCK_BYTES, _BLOCK_MARK_BYTES = 32 * 1024, 5
_BLOCK_STRIDE = _BLOCK_MARK_BYTES + _BLOCK_BYTES


def list_members(source: ByteSource) -> list[dict[str, Any]]:
    """List the files of a ZIP archive by the bytes of their names, as objects of a listing.

    Empty ones, folders, and those whose name or folder begins with a dot or is __MACOSX are left
    out. Raises `DamagedCompression` for an archive that is damaged or whose members overlap,
    `UnsupportedFormat` for members that cannot be read, and `SourceNotFound` if none is left.
    """
    infos, directory = _read_directory(source)
    for mark, kind in _DOCUMENTS.items():
        if any(info.filename == mark for info in infos):
            raise UnsupportedFormat(f"{source.name}: this ZIP archive is {kind}")
    found, left_out = {}, Counter[str]()
    infos.sort(key=lambda info: info.header_offset)
    begin, *nexts = (*(info.header_offset for info in infos), directory)
    if begin and b"".join(source.stream(0, 4, 4)) == _LOCAL_SIGNATURE:
        raise _damaged(
            source.name,
            "it begins with members that are not in its directory, as where archives are joined",
        )
    for info, until in zip(infos, nexts, strict=True):
        name, at, size = info.filename, info.header_offset, info.compress_size
        is_deflated = info.compress_type == zipfile.ZIP_DEFLATED
        if at < 0 or at + _LOCAL_BYTES + size > until:
            raise _damaged(source.name, f"{name} overlaps another member, or the directory")
        parts = name.replace("\\", "/").split("/")
        if not parts[-1]:
            left_out["folders"] += 1
        # The names . and .. are not of hidden folders.
        elif any(each == "__MACOSX" or (each[0:1] == "." and each.strip(".")) for each in parts):
            left_out["hidden"] += 1
        elif (why := _unreadable(info)) is not None:
            raise UnsupportedFormat(f"{source.name}!{name} {why}")
        elif name in found:
            raise _damaged(source.name, f"it has two members named {name}")
        elif not info.file_size:
            if info.CRC or size > (_MOST_BYTES_OF_NOTHING if is_deflated else 0):
                raise _damaged(source.name, f"{name} has size 0, and data")
            left_out["empty"] += 1
        else:
            member = [name, at, until, is_deflated, info.CRC, info.file_size]
            found[name] = {**source.pinned, "bytes": size, "member": member}
    if not found:
        what = ", ".join(f"{count} {kind}" for kind, count in left_out.items()) or "nothing"
        raise SourceNotFound(f"{source.name}: the archive has no file to import (only: {what})")
    return [found[name] for name in sorted(found, key=str.encode)]


def _read_directory(source: ByteSource) -> tuple[list[zipfile.ZipInfo], int]:
    """Read the central directory; return its entries and its offset."""
    try:
        with zipfile.ZipFile(_RangedFile(source)) as archive:
            infos, directory = archive.infolist(), archive.start_dir
    except zipfile.BadZipFile as error:
        is_cut = "not a zip file" in str(error)
        reason = "its end, which lists the members, is missing" if is_cut else str(error)
        raise _damaged(source.name, reason) from None
    except UnicodeDecodeError:
        raise _damaged(source.name, "the name of a member is not UTF-8 as declared") from None
    except (ValueError, struct.error, OverflowError):
        raise _damaged(source.name, "its directory is not valid") from None
    except NotImplementedError as error:
        raise UnsupportedFormat(f"{source.name}: {error} is not supported; zip it again") from None
    if any(info.volume for info in infos):
        raise UnsupportedFormat(
            f"{source.name} is one of several parts of an archive: join them first (zip -s 0 FILE"
            " --out WHOLE)"
        )
    return infos, directory


def _damaged(name: str, reason: str) -> DamagedCompression:
    return DamagedCompression(
        f"{name}: not a valid ZIP archive: {reason}; copy or zip it again, or, if it is none, say"
        " --compression none"
    )


def _unreadable(info: zipfile.ZipInfo) -> str | None:
    """Return the reason why a member cannot be read, and what helps; None if there is none."""
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted: unpack the archive with its password, and import its files"
    method = info.compress_type
    if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & _PATCHED:
        known = _METHODS.get(method, "another method")
        return f"is compressed by {known} ({method}), not by deflate: zip it again with deflate"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a symbolic link: zip the files themselves"
    if compression_by_name(info.filename) is not None:
        return "is an archive or compressed itself: unpack the outer archive, and import its files"
    return None


class _RangedFile(io.RawIOBase):
    """Seekable file over a source's ranged reads. Its end is read once."""

    def __init__(self, source: ByteSource) -> None:
        self._source, self._at = source, 0
        self._begin = max(0, source.size - _TAIL_BYTES)
        self._tail = b"".join(source.stream(self._begin, source.size, _TAIL_BYTES))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position. Raises OSError for one before the beginning."""
        at = offset + (0, self._at, self._source.size)[whence]
        if at < 0:
            raise OSError
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        """Read bytes from the position on; all of them if `size` is negative."""
        start, whole = self._at, self._source.size
        end = whole if size < 0 else max(start, min(start + size, whole))
        if end - start > _MOST_DIRECTORY_BYTES:
            raise UnsupportedFormat(
                f"{self._source.name}: the directory of the archive has more than"
                f" {_MOST_DIRECTORY_BYTES >> 20} MiB: make several archives of it"
            )
        self._at = end
        if start >= self._begin:
            return self._tail[start - self._begin : end - self._begin]
        return b"".join(self._source.stream(start, end, end - start))


class ZipMember:
    """Member of a ZIP archive, with the bytes that gzip would have for the same data."""

    def __init__(self, archive: ByteSource, pinned: Mapping[str, Any]) -> None:
        """`pinned`: an object of `list_members`."""
        self.pinned = pinned
        self._archive, self._bytes = archive, int(pinned["bytes"])
        name, self._at, self._until, self._is_deflated, checksum, length = pinned["member"]
        self.name = f"{archive.name}!{name}"
        """Name of the archive, and of the member in it."""
        blocks = 0 if self._is_deflated else -(-self._bytes // _BLOCK_BYTES)
        self._body = self._bytes + blocks * _BLOCK_MARK_BYTES
        self._trailer = struct.pack("<II", checksum, length & 0xFFFFFFFF)
        self.size = len(_HEADER) + self._body + len(self._trailer)
        """Size in bytes."""

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """Yield a range; see `ByteSource.stream`. Raises `DamagedCompression`."""
        position = len(_HEADER)
        at, stop = (min(max(0, each - position), self._body) for each in (start, end))
        begin = self._begin
        if self._is_deflated:
            body = self._archive.stream(begin + at, begin + stop, piece_bytes)
        else:
            first = at // _BLOCK_STRIDE
            at = first * _BLOCK_STRIDE
            body = self._blocks(first, -(-stop // _BLOCK_STRIDE))
        pieces = chain((_HEADER,) if start < position else (), body, (self._trailer,))
        position = 0 if start < position else position + at
        yield from slice_pieces(pieces, position, start, end, piece_bytes, self.name)

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    @cached_property
    def _begin(self) -> int:
        """Offset of the data, which only the local header shows."""
        header = b"".join(self._archive.stream(self._at, self._at + _LOCAL_BYTES, _LOCAL_BYTES))
        if not header.startswith(_LOCAL_SIGNATURE):
            raise _damaged(self.name, f"no member begins at byte {self._at}")
        begin: int = self._at + _LOCAL_BYTES + sum(struct.unpack("<HH", header[26:]))
        if begin + self._bytes > self._until:
            raise _damaged(self.name, "it overlaps another member, or the directory")
        return begin

    def _blocks(self, first: int, end: int) -> Iterator[bytes]:
        """Yield stored blocks in pieces, from number `first` to `end`, exclusive."""
        at, stop = first * _BLOCK_BYTES, min(end * _BLOCK_BYTES, self._bytes)
        for piece in self._archive.stream(self._begin + at, self._begin + stop, _BLOCK_BYTES):
            left = piece
            while left:
                if not at % _BLOCK_BYTES:
                    size = min(_BLOCK_BYTES, self._bytes - at)
                    yield struct.pack("<BHH", at + size == self._bytes, size, size ^ 0xFFFF)
                part = left[: _BLOCK_BYTES - at % _BLOCK_BYTES]
                yield part
                at += len(part)
                left = left[len(part) :]
