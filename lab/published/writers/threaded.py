"""Put books with boto3 in the threads of asyncio's `run_in_executor`.

python -m lab.published.writers.threaded FILE TABLE [--threads N] [--new-clients]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import boto3

from lab.published.writers.books import Book, read_books
from lab.published.writers.boto import put_book, put_book_with_new_client


async def write_books(
    books: Sequence[Book], table: str, threads: int | None, new_clients: bool
) -> None:
    """Put all books. `threads` None uses the loop's own pool of `min(32, cores + 4)` threads."""
    put: Callable[[Book, str], None] = (
        put_book_with_new_client if new_clients else partial(put_book, boto3.client("dynamodb"))
    )
    loop = asyncio.get_running_loop()
    executor = ThreadPoolExecutor(max_workers=threads) if threads else None
    futures = [loop.run_in_executor(executor, put, book, table) for book in books]
    await asyncio.gather(*futures)


def main() -> None:
    """Write a file's books, and print the seconds of writing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("table")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--new-clients", action="store_true")
    options = parser.parse_args()
    books = read_books(options.file)
    begin = time.perf_counter()
    asyncio.run(write_books(books, options.table, options.threads, options.new_clients))
    print(json.dumps({"seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
