r"""Recognize the text of database dumps, in which `\N` is null and escapes stand for characters.

Text with backslashes of its own, such as paths, looks alike. So cells of `\N` must be seen, and of
the other escapes none that the program does not write.
"""

from __future__ import annotations

import re

_NULL = re.compile(rb"(?<![^\t\r\n])\\N(?![^\t\r\n])|(?<![^\r\n])\\\.(?![^\r\n])")
r"""Cells of `\N`, or the line `\.` at the end of COPY."""
_NULL_OF_HIVE = re.compile(rb"(?<![^\x01\r\n])\\N(?![^\x01\r\n])")
_ESCAPED = re.compile(rb"\\([\s\S]?)([a-z]?)")
r"""Escaped byte, and a small letter after it: `\n` and `e` may begin the name of a folder."""
_WRITTEN = {"postgres": frozenset(b"\\nrtfv"), "mysql": frozenset(b"\\nrt0Z\t\n")}
r"""Bytes that a program escapes. Both also read `\b`, which is hardly ever a backspace."""
_RARE = b"fv0Z"
_PATH = re.compile(rb"(?<![A-Za-z])[A-Za-z]:\\[^\\]|(?<![^\t\r\n])\\\\[^\\\t\r\n]+\\[^\\]")
"""Paths of Windows whose backslashes are not escaped."""


def dump_program(data: bytes, *, whole: bool) -> tuple[str, bool] | None:
    """Return the program that wrote a dump, and whether that is certain; None for other text.

    `data`: beginning of a file in UTF-8; `whole`: all of it. It is not certain if words may follow
    backslashes. Without any escape but null, rows that were not seen may have other backslashes.
    """
    if b"\\" not in data or b'"' in data:
        return None
    complete = data if whole else data[: data.rfind(b"\n") + 1]
    if b"\x01" in complete:
        others, nulls = _NULL_OF_HIVE.subn(b"", complete)
        return ("hive", True) if nulls and b"\\" not in others else None
    others, nulls = _NULL.subn(b"", complete)
    pairs = _ESCAPED.findall(others)
    if not nulls or not (pairs or whole) or _PATH.search(others):
        return None
    words = sum((bool(letter) and byte.isalnum()) or byte in _RARE for byte, letter in pairs)
    for program, written in _WRITTEN.items():
        if all(byte and byte[0] in written for byte, _ in pairs):
            return program, 2 * words <= len(pairs)
    return None
