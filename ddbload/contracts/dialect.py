"""Dialects of delimited text, and encodings: the ones that a payload may ask for."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from ddbload.contracts.source import AUTO, Source
from ddbload.errors import InvalidPayload

UTF_8 = "utf-8"
_NOT_OF_FILES = {"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
"""Codecs of Python that no file is written in."""
_LINE_ENDS = ("\r", "\n")


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


MAX_MARK = 1000
"""Characters of a delimiter or comment mark: patterns are compiled of them."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """RFC 4180 with any Unicode characters for delimiter, quote, escape and comment.

    Rows end with CR, LF or CRLF, also mixed. A quote opens a quoted field only as the field's
    first character, and is doubled inside one; elsewhere it is an ordinary character. Raises
    `InvalidPayload` for ambiguous characters, such as a quote that is the delimiter.
    """

    delimiter: str = ","
    """One or more characters; of overlapping delimiters, the leftmost counts."""
    quote: str | None = '"'
    """One character; None if fields are never quoted."""
    escape: str | None = None
    """One character, which makes the next character ordinary, inside and outside quotes.

    An escaped line end is ordinary, too; of CRLF only the CR. A quote may still be doubled. None
    if there is no escape character.
    """
    comment: str | None = None
    """Text that a comment line begins with. Quotes in a comment line are ordinary characters."""
    encoding: str = UTF_8
    """UTF-8 or a single-byte encoding."""

    def __post_init__(self) -> None:
        if self.escape == self.quote:
            # As in psql: a quote that escapes a quote is a doubled quote.
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
        if len(value) > MAX_MARK:
            raise InvalidPayload(
                f"'source.{name}' has {len(value):,} characters, and may have {MAX_MARK}"
            )
        if any(line_end in value for line_end in _LINE_ENDS):
            verb = "be" if value in _LINE_ENDS else "contain"
            raise InvalidPayload(f"'source.{name}' cannot {verb} a line end")
        try:
            value.encode(self.encoding)
        except UnicodeEncodeError:
            what = "UTF-8" if self.encoding == UTF_8 else self.encoding
            raise InvalidPayload(f"'source.{name}' is not a character of {what}") from None

    @classmethod
    def of(cls, source: Source) -> Dialect:
        """Make the dialect of a payload's source. Raises `InvalidPayload`.

        Text that is neither UTF-8 nor of a single-byte encoding is transcoded to UTF-8 first.
        """
        encoding = known_codec(source.encoding) or UTF_8
        return cls(
            source.delimiter,
            source.quote,
            source.escape,
            source.comment,
            encoding if is_single_byte(encoding) else UTF_8,
        )


def check_dialect(source: Source) -> None:
    """Raise `InvalidPayload` if delimited text cannot be read as the source says."""
    if source.encoding != AUTO and known_codec(source.encoding) is None:
        raise InvalidPayload(
            f"'source.encoding' must be an encoding of text, such as utf-16 or latin-1, not"
            f" {json.dumps(source.encoding)}"
        )
    if source.kind.has_columns or source.kind.is_open:
        if source.delimiter == AUTO:
            source = replace(source, delimiter=placeholder_delimiter(source.quote))
        Dialect.of(source)


def placeholder_delimiter(quote: str | None) -> str:
    """Return a delimiter that is not the quote, for a dialect whose delimiter is not detected."""
    return "," if quote != "," else ";"
