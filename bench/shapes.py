"""Generate files to import, with the same bytes for the same shape, rows and seed on any machine.

Keys are unique, so the table's final content is determined. A file's first rows do not depend on
its number of rows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

Rows = Callable[[random.Random], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Shape:
    """Format of a file, and the keys of a table for it."""

    name: str
    columns: dict[str, str]
    """Attribute type of each column: S, N or BOOL."""
    keys: tuple[str, ...]
    """Partition key, followed by the sort key if there is one."""
    delimiter: str
    header: bool
    rows: Rows
    """Endless generator of lines, each with its line end."""

    @property
    def suffix(self) -> str:
        """Suffix of the file's name."""
        return ".tsv" if self.delimiter == "\t" else ".csv"

    def write(self, path: Path, rows: int, seed: int) -> None:
        """Write a file with `rows` rows."""
        with path.open("w", encoding="utf-8", newline="") as file:
            if self.header:
                file.write(self.delimiter.join(self.columns) + "\n")
            file.writelines(islice(self.rows(random.Random(f"{self.name} {seed}")), rows))


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = (
    *("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world"),
    *("school", "state", "family", "student", "group", "country", "problem", "hand", "part"),
    *("place", "case", "week", "company", "system", "program", "question", "work", "government"),
)
_PIECES = (
    *_WORDS,
    'a ""quoted"" word',
    'six feet, two inches (6\' 2"")',
    "one, two, three",
    "first line\nsecond line",
    "naïve café",
    "Ærøskøbing",
    "Ελληνικά",
    "日本語の文章",
    "🚀 emoji",
)


def _ngrams(rng: random.Random) -> Iterator[str]:
    """Yield rows like Google's 1-grams: word, year and three counts, sorted by word and year."""
    number = 0
    while True:
        # The first five letters count upwards, which keeps words sorted and unique.
        lead, rest = "", number
        for _ in range(5):
            rest, digit = divmod(rest, 26)
            lead = _LETTERS[digit] + lead
        word = lead + "".join(rng.choices(_LETTERS, k=rng.randint(2, 8)))
        for year in sorted(rng.sample(range(1800, 2009), rng.randint(1, 209))):
            matches = 1 + int(math.exp(rng.gauss(5.0, 2.0)))
            pages = rng.randint(1 + matches // 2, matches)
            yield f"{word}\t{year}\t{matches}\t{pages}\t{rng.randint(1 + pages // 2, pages)}\n"
        number += 1


def _wide(rng: random.Random) -> Iterator[str]:
    """Yield orders as exported from a database: 20 columns, some of them sometimes empty."""
    number = 0
    while True:
        number += 1
        first, last = rng.choice(_WORDS), rng.choice(_WORDS)
        note = " ".join(rng.choices(_WORDS, k=6)) if rng.random() < 0.3 else ""
        yield (
            f"order-{number:09},{rng.randint(1, 10**6)},{first} {last},{first}.{last}@example.com,"
            f"{rng.choice(_WORDS)} street {rng.randint(1, 300)},{rng.randint(10000, 99999)},"
            f"{rng.choice(_WORDS)}ville,{rng.choice(('DE', 'FR', 'JP', 'US'))},"
            f"20{rng.randint(10, 25)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T12:00:00Z,"
            f"{rng.choice(('new', 'paid', 'sent', 'returned'))},{rng.randint(1, 20)},"
            f"{rng.randint(1, 10**6) / 100},{rng.randint(1, 10**7) / 100},{rng.random():.4f},"
            f"{rng.uniform(-90, 90):.6f},{rng.uniform(-180, 180):.6f},"
            f"{rng.choice(('true', 'false'))},{rng.choice(('true', 'false'))},"
            f"{rng.randint(0, 5) or ''},{note}\n"
        )


def _quoted(rng: random.Random) -> Iterator[str]:
    """Yield reviews whose texts contain quotes, commas, line ends and several alphabets."""
    number = 0
    while True:
        number += 1
        title, body, tags = (" ".join(rng.choices(_PIECES, k=k)) for k in (3, 14, 2))
        author = f"{rng.choice(_PIECES)} {number}"
        yield f'{number},"{author}","{title}","{body}",{rng.randint(1, 50) / 10},"{tags}"\n'


_ORDER = """
order=S customer=N name=S email=S street=S postcode=S city=S country=S placed=S status=S
pieces=N price=N total=N discount=N latitude=N longitude=N gift=BOOL express=BOOL rating=N note=S
"""

SHAPES = {
    shape.name: shape
    for shape in (
        Shape(
            "ngrams",
            {"ngram": "S", "year": "N", "matches": "N", "pages": "N", "volumes": "N"},
            ("ngram", "year"),
            "\t",
            header=False,
            rows=_ngrams,
        ),
        Shape(
            "wide",
            dict(entry.split("=") for entry in _ORDER.split()),
            ("order",),
            ",",
            header=True,
            rows=_wide,
        ),
        Shape(
            "quoted",
            {"id": "N", "author": "S", "title": "S", "body": "S", "stars": "N", "tags": "S"},
            ("id",),
            ",",
            header=True,
            rows=_quoted,
        ),
    )
}
