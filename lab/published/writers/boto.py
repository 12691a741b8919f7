"""Put one book with boto3."""

from __future__ import annotations

import threading
from typing import Any

import boto3

from lab.published.writers.books import Book

_making = threading.Lock()


def put_book(client: Any, book: Book, table: str) -> None:
    """Put a book and wait for the answer."""
    client.put_item(TableName=table, Item=book.item())


def put_book_with_new_client(book: Book, table: str) -> None:
    """Create a client for one book, which the article advises against.

    Only one thread at a time creates a client, because boto3's session is not thread-safe.
    """
    with _making:
        client = boto3.client("dynamodb")
    put_book(client, book, table)
