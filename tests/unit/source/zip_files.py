"""ZIP archives of all kinds, by Python's zipfile or put together by hand."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping


class _Stream(io.BytesIO):
    """File without positions, so that sizes come behind the data (data descriptors)."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError

    def seek(self, *_: int) -> int:
        raise OSError


def archive(
    files: Mapping[str, bytes],
    *,
    method: int = zipfile.ZIP_DEFLATED,
    streamed: bool = False,
    zip64: bool = False,
    comment: bytes = b"",
    before: bytes = b"",
) -> bytes:
    """Make an archive. `zip64`: with its fields in each header; `before`: bytes in front of it."""
    made = _Stream() if streamed else io.BytesIO()
    if before:
        made.write(before)
    with zipfile.ZipFile(made, "a" if before else "w", method) as to:
        to.comment = comment
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with to.open(info, "w", force_zip64=zip64) as member:
                member.write(data)
    return made.getvalue()


def changed(data: bytes, *changes: tuple[int, str, int], entry: int = 0) -> bytes:
    """Change fields of an entry of the directory, each an offset, a format and a value."""
    made, at = bytearray(data), -1
    for _ in range(entry + 1):
        at = data.index(b"PK\x01\x02", at + 1)
    for offset, form, value in changes:
        struct.pack_into(form, made, at + offset, value)
    return bytes(made)


FLAGS, METHOD, DISK = (8, "<H"), (10, "<H"), (34, "<H")
CHECKSUM, COMPRESSED, SIZE = (16, "<I"), (20, "<I"), (24, "<I")
ATTRIBUTES, OFFSET = (38, "<I"), (42, "<I")
