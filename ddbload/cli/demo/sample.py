"""A file to import: words and how often books used them in a year, as 1-gram files have it."""

from __future__ import annotations

import random
from pathlib import Path

COLUMNS = ("id", "ngram", "year", "match_count", "volume_count")
KEYS = (("id", "N"),)

_SYLLABLES = ("an", "be", "co", "da", "él", "fi", "gu", "ha", "in", "ka", "lö", "mi", "no", "ṣu")


def write_sample(path: Path, rows: int, seed: int = 1) -> None:
    """Write a TSV of so many rows with distinct ids; the same for the same seed."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("\t".join(COLUMNS) + "\n")
        for number in range(1, rows + 1):
            word = "".join(rng.choices(_SYLLABLES, k=rng.randint(1, 5)))
            if rng.random() < 0.01:
                # Quoted, with a quote, a tab and a line end inside.
                word = f'"{word} ""{word}""\t{word}\n{word}"'
            matches = int(rng.paretovariate(0.6)) % 10**7 + 1
            volumes = rng.randint(1, matches)
            file.write(f"{number}\t{word}\t{rng.randint(1800, 2019)}\t{matches}\t{volumes}\n")
