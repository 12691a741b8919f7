"""Files that are hard to split: quotes, line ends, marks and broken characters in odd places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from ddbload.contracts import Cursor
from ddbload.rows.dialect import Dialect

DELIMITERS = [*",\t;| a-^].\\%\0\x1c\u2028\ufeff", "é", "§", "€", "😀"]
QUOTES = [*"\"'`|^]-\\*%\0a", "«", "”", "𝄞", *[None] * 6]
TEXTS = [b"a", b"7", b" ", b"\0", b"\x1c", "é€😀".encode(), b"\xef\xbb\xbf", "\u2028".encode()]
NOT_UTF8 = [b"\xff", b"\xc2", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xa7", b"\xab"]
LINE_ENDS = [b"\n", b"\r\n", b"\r"]


@dataclass(frozen=True)
class File:
    """Bytes, from a row's start on, and how they are to be read."""

    data: bytes
    dialect: Dialect

    @property
    def marks(self) -> tuple[str, str | None]:
        return self.dialect.delimiter, self.dialect.quote


_character = st.characters(codec="utf-8", exclude_characters="\r\n")
_odd_dialects = (
    st.tuples(st.sampled_from(DELIMITERS) | _character, st.sampled_from(QUOTES) | _character)
    .filter(lambda pair: pair[0] != pair[1])
    .map(lambda pair: Dialect(*pair))
)


def dialects() -> st.SearchStrategy[Dialect]:
    return st.just(Dialect()) | _odd_dialects


# Left to itself, binary() seldom draws more than ten bytes.
_recipes = st.integers(0, 60).flatmap(lambda size: st.binary(min_size=size, max_size=size))


def files() -> st.SearchStrategy[File]:
    """Well-formed rows, rows with bare quotes, or scraps of rows in any order."""
    return st.builds(_file, dialects(), st.integers(0, 2), _recipes)


def _file(dialect: Dialect, wildness: int, recipe: bytes) -> File:
    # One draw of bytes, read as a recipe, is ten times as fast as a draw for each symbol.
    delimiter = dialect.delimiter.encode()
    quote = (dialect.quote or '"').encode()
    marks = [delimiter, quote, quote * 2, delimiter + quote, quote + delimiter]
    halves = [mark[:-1] for mark in (delimiter, quote) if len(mark) > 1]
    plain = [b"a", delimiter, *LINE_ENDS, *TEXTS]
    bare = [b"a" + quote, quote * 2 + delimiter, delimiter + b" " + quote, *LINE_ENDS, *TEXTS]
    scraps = [*marks * 2, *LINE_ENDS * 2, *TEXTS, *NOT_UTF8, *halves]
    symbols = plain + bare * (wildness >= 1) + scraps * (wildness >= 2)
    inner = plain + marks
    between = (delimiter, *LINE_ENDS)
    codes = iter(recipe)

    def quoted() -> bytes:
        inside = [inner[next(codes, 0) % len(inner)] for _ in range(next(codes, 0) % 6)]
        return quote + b"".join(inside).replace(quote, quote * 2) + quote

    def written() -> Iterator[bytes]:
        for code in codes:
            if code < 3 * len(symbols):
                yield symbols[code % len(symbols)]
            elif code % 32 == 0:
                yield b"\n" + quote + b"x,\r\n" * next(codes, 0) + quote + b"\n"
            else:
                yield between[code // 4 % 4] + quoted() + between[code % 4]

    return File(b"".join(written()), dialect)


def starts() -> st.SearchStrategy[Cursor]:
    """Where in a source the bytes may stand."""
    return st.builds(Cursor, byte=st.integers(0, 2**40), line=st.integers(1, 2**40))


@st.composite
def pieces(draw: st.DrawFn, data: bytes, most: int) -> list[bytes]:
    """`data` in pieces of 1 to `most` bytes, as reads from a network might bring it."""
    sizes = draw(st.lists(st.integers(1, most), min_size=1, max_size=8))
    found: list[bytes] = []
    position = 0
    while position < len(data):
        size = sizes[len(found) % len(sizes)]
        found.append(data[position : position + size])
        position += size
    return found
