"""Put one book after the other with boto3.

python -m lab.published.writers.synchronous FILE TABLE [--new-clients]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import boto3

from lab.published.writers.books import Book, read_books
from lab.published.writers.boto import put_book, put_book_with_new_client


def write_books(books: Sequence[Book], table: str) -> None:
    """Put all books with one client."""
    client = boto3.client("dynamodb")
    for book in books:
        put_book(client, book, table)


def write_books_with_new_clients(books: Sequence[Book], table: str) -> None:
    """Put each book with a new client."""
    for book in books:
        put_book_with_new_client(book, table)


def main() -> None:
    """Write a file's books, and print the seconds of writing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("table")
    parser.add_argument("--new-clients", action="store_true")
    options = parser.parse_args()
    books = read_books(options.file)
    write = write_books_with_new_clients if options.new_clients else write_books
    begin = time.perf_counter()
    write(books, options.table)
    print(json.dumps({"seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
