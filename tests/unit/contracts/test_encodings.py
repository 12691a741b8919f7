"""Tests of text encodings and their names."""

from __future__ import annotations

import codecs
import encodings
import pkgutil

import pytest

from ddbload.contracts.text_encodings import is_single_byte, known_codec

EVERY = sorted({module.name for module in pkgutil.iter_modules(encodings.__path__)})


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *(("utf8", "utf-8"), ("UTF_8", "utf-8"), ("utf-8-sig", "utf-8"), ("U8", "utf-8")),
        *(("latin1", "iso8859-1"), ("Latin-1", "iso8859-1"), ("cp1252", "cp1252")),
        *(("windows-1252", "cp1252"), ("utf-16", "utf-16"), ("SJIS", "shift-jis")),
        *(("us-ascii", "ascii"), ("utf-7", "utf-7"), ("cp500", "cp500")),
    ],
)
def test_codec_has_one_name(name: str, known: str) -> None:
    assert known_codec(name) == known
    assert codecs.lookup(known)


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "utf-9", "a\0b", "é", "\udc80", "../ascii", "encodings.ascii", "x" * 10_000),
        *("rot13", "base64", "hex", "zlib", "bz2", "uu", "quopri", "idna", "punycode"),
        *("undefined", "unicode_escape", "raw-unicode-escape", "charmap", "mbcs"),
    ],
)
def test_codec_that_is_not_a_text_encoding_is_unknown(name: str) -> None:
    assert known_codec(name) is None
    assert not is_single_byte(name)


@pytest.mark.parametrize("name", [name for name in EVERY if is_single_byte(name)])
def test_single_byte_encoding_decodes_each_byte_alone(name: str) -> None:
    characters = {byte: bytes([byte]).decode(name, "surrogateescape") for byte in range(256)}
    data = bytes(range(256)) + bytes(range(255, -1, -1))
    assert data.decode(name, "surrogateescape") == "".join(characters[byte] for byte in data)
    assert {characters[byte]: byte for byte in range(128)} == {
        chr(byte): byte for byte in range(128)
    }
    for byte, character in characters.items():
        assert character.encode(name, "surrogateescape") == bytes([byte])
