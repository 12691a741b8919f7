"""Encodings of text, by the names that Python has for them."""

from __future__ import annotations

import codecs
from functools import cache

UTF_8 = "utf-8"
_NOT_OF_FILES = {"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
"""Codecs of Python that no file is written in."""


@cache
def known_codec(name: str) -> str | None:
    """Return Python's name of a text encoding, or None if there is no such encoding.

    UTF-8 with a byte order mark is UTF-8: any byte order mark is skipped.
    """
    try:
        codec = codecs.lookup(name)
        found = codec.name.lower().replace("_", "-")
        # Codecs from bytes to bytes, or from text to text, refuse this by themselves.
        "a".encode(name)
    except (LookupError, ValueError):
        return None
    if found in _NOT_OF_FILES:
        return None
    return UTF_8 if found in (UTF_8, "utf-8-sig") else found


@cache
def is_single_byte(name: str) -> bool:
    """Return true if each byte is one character, and bytes below 0x80 are ASCII.

    Such a file is split at the bytes of its line ends, without decoding it.
    """
    if known_codec(name) in (None, UTF_8):
        return False
    if known_codec(name) == "ascii":
        return True
    characters = [_decoded(name, bytes([byte])) for byte in range(256)]
    high = [character for character in characters[128:] if character is not None]
    in_pairs = [_decoded(name, bytes([byte]) + b"A") for byte in range(128, 256)]
    return (
        "".join(character or "" for character in characters[:128]) == bytes(range(128)).decode()
        and _decoded(name, bytes(range(128))) == bytes(range(128)).decode()
        and bool(high)
        and all(len(character) == 1 and not character.isascii() for character in high)
        and len(set(high)) == len(high)
        and in_pairs == [None if each is None else each + "A" for each in characters[128:]]
    )


def _decoded(name: str, data: bytes) -> str | None:
    try:
        return data.decode(name)
    except UnicodeError:
        return None
