"""Import a file into a table, in the ways of "Importing data into DynamoDB".

    python -m lab.published.import_rows FILE TABLE [--batch 25] [--close] [--threads 1]
        [--processes 1]

FILE has tab-separated values and a header; `ngram` is text and `year` a number. It is read as a
stream. With `--batch 1` each row is one request. With `--close` each request gets a new connection,
as without keep-alive. Prints the number of rows and the seconds of the work, without Python's
start, as JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

NUMERIC = ("year",)
"""Columns that become numbers; all others become text."""


def items(file: str) -> Iterator[dict[str, Any]]:
    """Yield the rows as items."""
    with Path(file).open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            yield {name: {"N" if name in NUMERIC else "S": text} for name, text in row.items()}


def batches(file: str, size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows as batches of items."""
    rows = items(file)
    while batch := list(islice(rows, size)):
        yield batch


class Writer:
    """Writer of batches through one client, which has a connection per thread."""

    def __init__(self, table: str, *, threads: int, close: bool) -> None:
        self._table = table
        self._client = boto3.client("dynamodb", config=Config(max_pool_connections=threads))
        if close:
            self._client.meta.events.register("before-send.dynamodb", _ask_to_close)

    def put(self, item: dict[str, Any]) -> None:
        """Write one item with one request."""
        self._client.put_item(TableName=self._table, Item=item)

    def write(self, batch: list[dict[str, Any]]) -> None:
        """Write up to 25 items with one request, and unprocessed ones with further requests."""
        left: Any = {self._table: [{"PutRequest": {"Item": item}} for item in batch]}
        while left:
            left = self._client.batch_write_item(RequestItems=left)["UnprocessedItems"]


def _ask_to_close(request: Any, **_: Any) -> None:
    """Make the server close the connection after its answer."""
    request.headers["Connection"] = "close"


def load(options: argparse.Namespace, share: int) -> int:
    """Write one process's share of the batches; return the number of rows."""
    writer = Writer(options.table, threads=options.threads, close=options.close)
    own = islice(batches(options.file, options.batch), share, None, options.processes)
    if options.threads > 1:
        return load_in_threads(writer, own, options.threads)
    rows = 0
    for batch in own:
        if options.batch == 1:
            writer.put(batch[0])
        else:
            writer.write(batch)
        rows += len(batch)
    return rows


def load_in_threads(writer: Writer, own: Iterator[list[dict[str, Any]]], threads: int) -> int:
    """Write the batches with several requests in flight."""
    rows = 0
    pending: set[Future[None]] = set()
    with ThreadPoolExecutor(threads) as pool:
        for batch in own:
            pending.add(pool.submit(writer.write, batch))
            rows += len(batch)
            # Limits how far the file is read ahead of the writes.
            if len(pending) >= 2 * threads:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for each in done:
                    each.result()
        for each in pending:
            each.result()
    return rows


def main() -> None:
    """Import the file, and print rows and seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("table")
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--close", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    begin = time.perf_counter()
    if options.processes == 1:
        rows = load(options, 0)
    else:
        with multiprocessing.Pool(options.processes) as pool:
            shares = [(options, share) for share in range(options.processes)]
            rows = sum(pool.starmap(load, shares))
            pool.close()
            pool.join()
    print(json.dumps({"rows": rows, "seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
