"""Imports into the fake bucket, and the proof that exactly the file's rows arrived."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from bench.bucket import BUCKET
from bench.listing import control
from tests.cli.console import PROGRAM, Console
from tests.e2e.processes import Running, started

TARGET = f"s3://{BUCKET}/rows/"
FILE, RUN = "rows.csv", "objects"


class BucketRun:
    """Import of a file whose rows have the ids of `ids`, some of them several times."""

    def __init__(
        self, console: Console, endpoint: str, ids: Sequence[int], **settings: Any
    ) -> None:
        """`settings`: those of the fake bucket."""
        self.console, self.endpoint = console, endpoint
        self.ledger = console.folder / "ledger"
        self.read = len(ids)
        # Bodies by key and by the byte at which the row begins, made without the product.
        self.bodies: dict[str, dict[str, str]] = defaultdict(dict)
        text = "id,name\n"
        for number, each in enumerate(ids):
            body = f'{{"id":{each},"name":"row {number}"}}'
            self.bodies[f"rows/{each}.json"][str(len(text))] = body
            text += f"{each},row {number}\n"
        console.write(FILE, text)
        self.command = [
            *(str(PROGRAM), "import", FILE, TARGET, "--object-key", "{id}.json"),
            *("--types", "id=N", "--run-id", RUN, "--ledger", "ledger"),
            *("--chunk-bytes", "600", "--max-rejects", str(len(ids))),
        ]
        control(endpoint, "/reset", settings)

    def counters(self) -> dict[str, Any]:
        """Return what the bucket has counted."""
        found: dict[str, Any] = control(self.endpoint, "/counters")
        return found

    @contextmanager
    def started(self, *options: str) -> Iterator[Running]:
        """Start the import."""
        with started(self.console, [*self.command, *options]) as running:
            yield running

    def completed(self, *command: str, replaced: int = 0) -> dict[str, Any]:
        """Run a command that ends the import, and check counts and objects; return its rows.

        `replaced`: objects that were there before, each of which is overwritten once.
        """
        ended = self.console.run([*(command or self.command), "--json"])
        rows: dict[str, Any] = json.loads(ended.out)["rows"]
        written = len(self.bodies)
        duplicates = self.read - written
        assert (rows["read"], rows["written"], rows["rejected"]) == (
            *(self.read, written),
            duplicates,
        ), ended
        assert ended.code == (3 if duplicates else 0), ended
        assert "row " not in ended.err, "rows are shown"
        self.bucket_is_right(replaced)
        return rows

    def bucket_is_right(self, replaced: int = 0) -> None:
        """Check that each key has the body of one of its rows, and says which one."""
        stored = control(self.endpoint, "/stored")
        assert stored.keys() == self.bodies.keys()
        for key, found in stored.items():
            row = found["headers"]["x-amz-meta-ddbload-row"]
            assert found["body"] == self.bodies[key][row]
            assert found["headers"]["content-type"] == "application/json"
        assert self.counters()["overwritten"] == replaced


def put_foreign(endpoint: str, bucket: str, key: str) -> None:
    """Put an object that no run has written, with the body `foreign`, whatever fails."""
    request = urllib.request.Request(
        f"{endpoint}/{bucket}/{key}",
        b"foreign",
        {
            "Authorization": "AWS4-HMAC-SHA256 made up",
            "Content-Type": "text/plain",
            "If-None-Match": "*",
        },
        method="PUT",
    )
    for _ in range(20):
        try:
            urllib.request.urlopen(request).close()
        except urllib.error.HTTPError as error:
            if error.code != 412:
                continue
        except (OSError, HTTPException):
            continue
        return
    raise AssertionError(f"{key} cannot be put")
