"""Files that are hard to split: quotes, line ends, marks and broken characters in odd places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.errors import InvalidPayload

DELIMITERS = [*",\t;| a-^].\\%\0\x1c\u2028\ufeff", "é", "§", "€", "😀"]
QUOTES = [*"\"'`|^]-\\*%\0a", "«", "”", "𝄞", *[None] * 6]
TEXTS = [b"a", b"7", b" ", b"\0", b"\x1c", "é€😀".encode(), b"\xef\xbb\xbf", "\u2028".encode()]
LONG_DELIMITERS = ["||", "::", "|~|", "aba", "éè", "\xa6\xa6", "ab", "aab", "€|€", ", "]
ESCAPES = [*"\\\\\\^|-]a%", "é", "😀", "\xa7", None, None]
COMMENTS = ["#", "//", "é", '"#', ",,", "a", "#|", *[None] * 3]
ENCODINGS = ["iso8859-1", "cp1252", "koi8-r", "cp437", "ascii", "iso8859-7", *["utf-8"] * 6]
NOT_UTF8 = [b"\xff", b"\xc2", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xa7", b"\xab"]
LINE_ENDS = [b"\n", b"\r\n", b"\r"]


@dataclass(frozen=True)
class File:
    """Bytes from a row's start on, and their dialect."""

    data: bytes
    dialect: Dialect

    @property
    def marks(self) -> tuple[str | None, ...]:
        """The dialect as the oracle takes it."""
        return marks_of(self.dialect)


def marks_of(dialect: Dialect) -> tuple[str | None, ...]:
    """Return a dialect as the oracle takes it."""
    more = dialect.escape, dialect.comment, dialect.encoding
    return dialect.delimiter, dialect.quote, *more


_character = st.characters(codec="utf-8", exclude_characters="\r\n")
_odd_dialects = (
    st.tuples(st.sampled_from(DELIMITERS) | _character, st.sampled_from(QUOTES) | _character)
    .filter(lambda pair: pair[0] != pair[1])
    .map(lambda pair: Dialect(*pair))
)


def dialects() -> st.SearchStrategy[Dialect]:
    """Generate dialects with a delimiter and a quote of one character each."""
    return st.just(Dialect()) | _odd_dialects


def all_dialects() -> st.SearchStrategy[Dialect]:
    """Generate dialects, also with escapes, comments, longer delimiters, other encodings."""
    return dialects() | _other_dialects


def _dialect_of(codes: bytes) -> Dialect:
    choices = ([*LONG_DELIMITERS, *DELIMITERS[:12], "§"], QUOTES, ESCAPES, COMMENTS, ENCODINGS)
    chosen = [of[code % len(of)] for of, code in zip(choices, codes, strict=True)]
    # Marks that cannot be told apart, or that the encoding lacks, make way for none.
    for number in (0, 0, 4, 3, 2, 1):
        try:
            return Dialect(*chosen)  # type: ignore[arg-type]
        except InvalidPayload:
            chosen[number] = "utf-8" if number == 4 else None
            chosen[0] = chosen[0] or DELIMITERS[codes[0] % 8]
    return Dialect()


_other_dialects = st.binary(min_size=5, max_size=5).map(_dialect_of)


# Left to itself, binary() seldom draws more than ten bytes.
_recipes = st.integers(0, 60).flatmap(lambda size: st.binary(min_size=size, max_size=size))


def files() -> st.SearchStrategy[File]:
    """Generate well-formed rows, rows with bare quotes, or scraps of rows in any order."""
    return st.builds(_file, all_dialects(), st.integers(0, 2), _recipes)


def _file(dialect: Dialect, wildness: int, recipe: bytes) -> File:
    # One draw of bytes, read as a recipe, is ten times as fast as a draw for each symbol.
    encoding = dialect.encoding
    delimiter = dialect.delimiter.encode(encoding)
    quote = (dialect.quote or '"').encode(encoding)
    escape = (dialect.escape or "").encode(encoding)
    comment = (dialect.comment or "").encode(encoding)
    marks = [delimiter, quote, quote * 2, delimiter + quote, quote + delimiter]
    others = [escape, escape + quote, escape + delimiter, escape + b"\n", escape + b"\r\n"]
    others = others * bool(escape) + [comment, b"\n" + comment] * bool(comment)
    others += [delimiter[:1], delimiter[-1:]] * (len(dialect.delimiter) > 1)
    halves = [mark[:-1] for mark in (delimiter, quote, escape, comment) if len(mark) > 1]
    commented = [b"\n" + comment + quote + b"\n"] * bool(comment)
    plain = [b"a", delimiter, *LINE_ENDS, *TEXTS, *commented] + [escape + b"a"] * bool(escape)
    bare = [b"a" + quote, quote * 2 + delimiter, delimiter + b" " + quote, *LINE_ENDS, *TEXTS]
    scraps = [*(marks + others) * 2, *LINE_ENDS * 2, *TEXTS, *NOT_UTF8, *halves]
    symbols = plain + bare * (wildness >= 1) + scraps * (wildness >= 2)
    inner = plain + marks + others
    between = (delimiter, *LINE_ENDS)
    codes = iter(recipe)

    def quoted() -> bytes:
        inside = [inner[next(codes, 0) % len(inner)] for _ in range(next(codes, 0) % 6)]
        if escape and next(codes, 0) % 2:
            within = b"".join(symbol.replace(quote, escape + quote) for symbol in inside)
        else:
            within = b"".join(inside).replace(quote, quote * 2)
        return quote + within + quote

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
    """Generate positions in a source at which the bytes may stand."""
    return st.builds(Cursor, byte=st.integers(0, 2**40), line=st.integers(1, 2**40))


@st.composite
def pieces(draw: st.DrawFn, data: bytes, most: int) -> list[bytes]:
    """Draw pieces of `data` with 1 to `most` bytes, as reads from a network might bring them."""
    sizes = draw(st.lists(st.integers(1, most), min_size=1, max_size=8))
    found: list[bytes] = []
    position = 0
    while position < len(data):
        size = sizes[len(found) % len(sizes)]
        found.append(data[position : position + size])
        position += size
    return found
