"""Generate books with Faker as a CSV file, reproducibly by seed, and read the file.

python -m lab.published.writers.books FILE NUMBER SEED
"""

from __future__ import annotations

import csv
import sys
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Book:
    """Book; its ISBN is the table's key."""

    isbn: str
    author: str
    title: str
    published_date: str

    def item(self) -> dict[str, dict[str, str]]:
        """Return the book in DynamoDB's JSON."""
        return {
            "isbn": {"S": self.isbn},
            "author": {"S": self.author},
            "title": {"S": self.title},
            "published_date": {"S": self.published_date},
        }


def generate_book(fake: Any) -> Book:
    """Generate a book with a unique ISBN."""
    return Book(
        isbn=fake.unique.isbn13(),
        author=fake.name(),
        title=fake.sentence(nb_words=4).rstrip("."),
        published_date=fake.date(),
    )


def read_books(file: Path) -> list[Book]:
    """Read a file written by this program."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [Book(**row) for row in csv.DictReader(lines)]


def main() -> None:
    """Generate the file."""
    from faker import Faker

    file, number, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    fake = Faker()
    fake.seed_instance(seed)
    with file.open("w", encoding="utf-8", newline="") as lines:
        rows = csv.writer(lines)
        rows.writerow([field.name for field in fields(Book)])
        rows.writerows(astuple(generate_book(fake)) for _ in range(number))


if __name__ == "__main__":
    main()
