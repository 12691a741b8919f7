"""Name the encodings that text may have which is not UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ddbload.contracts.source import is_single_byte, known_codec
from ddbload.errors import UnsupportedFormat
from ddbload.rows.file_signatures import refuse_binary_files, refuse_control_characters

_COMMON = ("cp1252", "cp1250", "cp1251", "mac-roman", "shift-jis", "gbk", "latin-1")
"""Encodings of public files, the most frequent first."""
_SHOWN_ENCODINGS = 7
_LEAST_BYTES = 16
"""Bytes beyond ASCII from which on a detected encoding is more than chance."""
_CONTROL, _LAST_CONTROL = "\x80", "\x9f"
_COMPARED_BYTES = 16 * 1024
_SHOWN_CHARACTERS = 60


def refuse_other_encodings(data: bytes, *, whole: bool) -> None:
    """Raise `UnsupportedFormat` for text of which most lines beyond ASCII are not UTF-8.

    `data`: beginning of the file; `whole`: all of it. A few lines of that kind in other text are
    damaged, and rejected.
    """
    if data.isascii():
        return
    lines = data.split(b"\n")
    if not whole:
        lines.pop()
    beyond = [line for line in lines if not line.isascii()]
    bad = [(number, line) for number, line in enumerate(lines, 1) if not _is_utf8(line)]
    if 2 * len(bad) <= len(beyond) or not bad:
        return
    refuse_binary_files(data)
    refuse_control_characters(data)
    number, line = bad[0]
    found = [*_texts(line, b"\n".join(line for _, line in bad)[:_COMPARED_BYTES])]
    error = UnsupportedFormat(
        f"line {number} has bytes that are not UTF-8, and so have {len(bad):,} of its first"
        f" {len(lines):,} lines: say which encoding the file has, such as"
        f" {', '.join(f'--encoding {name}' for name, _ in found)}; --encoding utf-8 rejects these"
        " rows"
    )
    error.options = tuple(_option(name, text) for name, text in found)
    raise error


def _option(name: str, text: str) -> dict[str, Any]:
    # Only a person sees which text is right, so none is marked as the best.
    return {"options": ["--encoding", name], "best": False, "names": None, "rows": [[text]]}


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _texts(line: bytes, bad: bytes) -> Iterator[tuple[str, str]]:
    """Yield encodings that read the lines, each with the text of one line: all of them differ."""
    texts: dict[str, str] = {}
    for name in (*_COMMON, *(detected := _detected(bad))):
        with suppress(UnicodeDecodeError):
            text = bad.decode(name)
            if not any(_CONTROL <= character <= _LAST_CONTROL for character in text):
                texts[name] = text
    seen: set[str] = set()
    first = next(place for place, byte in enumerate(line) if byte > 127)
    for name in (*detected, *_COMMON):
        text = texts.get(name, "")
        if text and text not in seen and len(seen) < _SHOWN_ENCODINGS:
            seen.add(text)
            # Of encodings that read the lines alike, the most frequent one.
            usual = next(each for each in texts if texts[each] == text)
            start = max(0, len(line[:first].decode()) - _SHOWN_CHARACTERS // 2)
            shown = line.decode(usual).strip("\r")[start : start + _SHOWN_CHARACTERS]
            yield usual, shown


def _detected(bad: bytes) -> list[str]:
    """Return the encodings that charset-normalizer finds, the most likely first."""
    try:
        # Imported here, because few files need it, and the deployed functions are without it.
        from charset_normalizer import from_bytes
    except ImportError:
        return []
    if len(bad.translate(None, bytes(range(128)))) < _LEAST_BYTES:
        return []
    names = [known_codec(match.encoding) for match in from_bytes(bad)]
    return [name for name in names if name and (is_single_byte(name) or name in _COMMON)][:2]
