"""Which encodings of text there are, and which of them can be split before they are decoded."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from ddbload.contracts.payload import Source
from ddbload.errors import InvalidPayload

UTF_8 = "utf-8"
_NOT_OF_FILES = {"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
"""Codecs between text and bytes that no file is written in."""


@cache
def known_codec(name: str) -> str | None:
    """Python's own name of an encoding of text, or None where there is none of this name.

    UTF-8 with a byte order mark is UTF-8: the mark is skipped wherever there is one.
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
    """Whether each byte is a character by itself, and those below 0x80 are ASCII's.

    Then rows end where their bytes say so, and a file can be split without being decoded.
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


_LINE_ENDS = ("\r", "\n")


@dataclass(frozen=True, slots=True)
class Dialect:
    """RFC 4180 with marks of any characters of Unicode.

    Rows end with CR, LF or CRLF, mixed at will. A quote opens a quoted field only as the
    field's first character, and is written inside one by doubling it; elsewhere it stands
    for itself. Raises `InvalidPayload` for marks that cannot be told apart.
    """

    delimiter: str = ","
    """One character or more; where it overlaps itself, the leftmost one counts."""
    quote: str | None = '"'
    """One character. None: quotes mean nothing."""
    escape: str | None = None
    """One character, which gives the character after it its plain meaning, in quotes and outside.

    Of a line end, too; of CRLF it is the CR. A quote may still be doubled. None: doubled only.
    """
    comment: str | None = None
    """What a line begins with that is none, where a row may begin; all else in it means nothing."""
    encoding: str = UTF_8
    """UTF-8, or an encoding whose bytes are characters: see `is_single_byte`."""

    def __post_init__(self) -> None:
        if self.escape == self.quote:
            # As psql has it: the quote that escapes a quote is one that is doubled.
            object.__setattr__(self, "escape", None)
        marks = {
            name: value
            for name in ("delimiter", "quote", "escape", "comment")
            if (value := getattr(self, name)) is not None
        }
        for name, value in marks.items():
            self._check(name, value)
        for one, other in combinations(marks, 2):
            if marks[one] == marks[other]:
                raise InvalidPayload(f"'source.{one}' and 'source.{other}' are the same character")
        for name in ("quote", "escape"):
            if marks.get(name, "\n") in self.delimiter:
                raise InvalidPayload(f"'source.delimiter' cannot contain 'source.{name}'")

    def _check(self, name: str, value: str) -> None:
        if not value or (len(value) > 1 and name in ("quote", "escape")):
            raise InvalidPayload(f"'source.{name}' must be one character, not {len(value)}")
        if any(line_end in value for line_end in _LINE_ENDS):
            said = "be" if value in _LINE_ENDS else "contain"
            raise InvalidPayload(f"'source.{name}' cannot {said} a line end")
        try:
            value.encode(self.encoding)
        except UnicodeEncodeError:
            what = "UTF-8" if self.encoding == UTF_8 else self.encoding
            raise InvalidPayload(f"'source.{name}' is not a character of {what}") from None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but a delimiter and a quote of one character has a meaning."""
        return len(self.delimiter) == 1 and self.escape is None and self.comment is None

    @classmethod
    def of(cls, source: Source) -> Dialect:
        """The dialect that a payload's source asks for.

        What is in no encoding that can be split has been made UTF-8 before it is read.
        """
        encoding = known_codec(source.encoding) or UTF_8
        return cls(
            source.delimiter,
            source.quote,
            source.escape,
            source.comment,
            encoding if is_single_byte(encoding) else UTF_8,
        )
