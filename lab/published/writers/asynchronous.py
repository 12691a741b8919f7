"""Put books with aiohttp and requests that are signed here, without boto3.

    python -m lab.published.writers.asynchronous FILE TABLE

All requests are created at once; aiohttp's session opens 100 connections at most. boto3 is used
only to find the credentials.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import boto3

from lab.published.writers.books import Book, read_books
from lab.published.writers.signature import Credentials, signed_headers


async def put_book(
    session: aiohttp.ClientSession, credentials: Credentials, endpoint: str, book: Book, table: str
) -> None:
    """Put a book and wait for the answer. Raises `aiohttp.ClientResponseError` if it fails."""
    body = json.dumps({"TableName": table, "Item": book.item()}).encode()
    now = dt.datetime.now(dt.UTC)
    headers = signed_headers(credentials, endpoint, "PutItem", body, now)
    async with session.post(endpoint, data=body, headers=headers) as answer:
        answer.raise_for_status()
        await answer.read()


async def write_books(books: Sequence[Book], table: str) -> None:
    """Put all books through one session."""
    credentials = _find_credentials()
    endpoint = os.environ.get(
        "AWS_ENDPOINT_URL_DYNAMODB", f"https://dynamodb.{credentials.region}.amazonaws.com"
    )
    async with aiohttp.ClientSession() as session:
        tasks = [
            asyncio.ensure_future(put_book(session, credentials, endpoint, book, table))
            for book in books
        ]
        await asyncio.gather(*tasks)


def _find_credentials() -> Credentials:
    session = boto3.session.Session()
    found = session.get_credentials()
    if found is None or session.region_name is None:
        sys.exit("no credentials or no region for AWS")
    return Credentials(found.access_key, found.secret_key, session.region_name)


def main() -> None:
    """Write a file's books, and print the seconds of writing."""
    books = read_books(Path(sys.argv[1]))
    begin = time.perf_counter()
    asyncio.run(write_books(books, sys.argv[2]))
    print(json.dumps({"seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
