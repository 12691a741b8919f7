r"""Replay transcripts: text files of commands and their output.

    # A remark.
    % table books id:N       makes a table
    % items books            shows a table's items, one JSON object a line, sorted
    % put FILE s3://b/k      makes an object (and its bucket)
    % objects s3://b/prefix  shows keys
    $ ddbload import a.csv books      is run by bash; a line that begins with "> " goes on with it
    what it prints on standard output
    ! what it prints on standard error
    [3]                      its exit status, where that is not 0

Texts that differ between runs are replaced by a word in capitals: see `settled`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tests.cli.console import Console, Ended
from tests.fakes.dynamodb_tables import keyed

_VARYING = (
    (re.compile(r"\b\d{8}T\d{6}Z-[0-9a-f]{6}\b"), "RUN"),
    (
        re.compile(r"(?m)^(  time      )[\d,.]+ s( until [a-z ]+)?, [\d,]+ rows/s"),
        r"\1SECONDS s\2, RATE rows/s",
    ),
    (re.compile(r'("(?:seconds|rows_per_second)": )[\d.]+(?:e-\d+)?'), r"\1NUMBER"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1:PORT"),
    (re.compile(r"ddbload-stdin-\w+"), "ddbload-stdin-RANDOM"),
    (re.compile(r"\[request \w+\]"), "[request ID]"),
    (re.compile(r"\b[\d-]{10}T[\d:]{8}\.\d{6}Z/"), "MOMENT/"),
    # A worker's random id, and then its figures, in the name of its progress.
    (re.compile(r"progress/[0-9a-f]{16}-\S+"), "progress/WORKER"),
    (re.compile(r"\b(history|started)/[^\s:]+"), r"\1/NAME"),
)
_MARKS = ("# ", "% ", "$ ")


@dataclass(frozen=True)
class Services:
    """Console and clients that a transcript uses."""

    console: Console
    dynamodb: Any
    s3: Any


def settled(text: str, console: Console) -> str:
    """Replace texts that differ between runs."""
    text = text.replace(str(console.folder), "FOLDER").replace(console.env["HOME"], "HOME")
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


def replay(text: str, services: Services) -> str:
    """Run the commands of a transcript; return it with their present output."""
    lines: list[str] = []
    for head, shown in _steps(text.splitlines()):
        lines += head
        if head[0].startswith("$ "):
            line = "\n".join([head[0][2:], *(more[2:] for more in head[1:])])
            now = _as_lines(services.console.shell(line), services.console)
        elif head[0].startswith("% "):
            now = _do(head[0][2:].split(), services)
        else:
            now = []
        lines += now
        lines += [""] * len(list(takewhile(lambda line: not line, reversed(shown))))
    return "\n".join(lines) + "\n"


def _steps(lines: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the lines that start each step, and the lines of its output."""
    starts = [n for n, line in enumerate(lines) if line.startswith(_MARKS)]
    assert starts[:1] == [0], "a transcript begins with a remark, a '%' or a '$'"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        more = list(takewhile(lambda line: line.startswith("> "), lines[start + 1 : end]))
        begun = start + 1 + len(more)
        yield lines[start:begun], lines[begun:end]


def _as_lines(ended: Ended, console: Console) -> list[str]:
    lines = settled(ended.out, console).splitlines()
    lines += [f"! {line}".rstrip() for line in settled(ended.err, console).splitlines()]
    return lines + ([f"[{ended.code}]"] if ended.code else [])


def _do(words: list[str], services: Services) -> list[str]:
    match words:
        case ["table", name, *keys]:
            make_table(services.dynamodb, name, *keys)
            return []
        case ["items", name]:
            found = [json.dumps(item, sort_keys=True) for item in items(services.dynamodb, name)]
            return sorted(settled(item, services.console) for item in found)
        case ["put", file, uri]:
            bucket, key = _parts(uri)
            services.s3.create_bucket(Bucket=bucket)
            data = services.console.path(file).read_bytes()
            services.s3.put_object(Bucket=bucket, Key=key, Body=data)
            return []
        case ["objects", uri]:
            bucket, prefix = _parts(uri)
            page = services.s3.list_objects_v2(Bucket=bucket, Prefix=prefix)
            return [settled(each["Key"], services.console) for each in page.get("Contents", ())]
    raise ValueError(f"no such step: {' '.join(words)}")


def _parts(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def make_table(dynamodb: Any, name: str, *keys: str) -> None:
    """Create a table with the keys `id:N`, or `id:N` and `year:S`."""
    pairs = [key.split(":") for key in keys]
    dynamodb.create_table(**keyed(name, **dict(pairs)))
    while dynamodb.describe_table(TableName=name)["Table"]["TableStatus"] != "ACTIVE":
        pass


def delete_table(dynamodb: Any, name: str) -> None:
    """Delete a table, and wait until one of the same name can be created."""
    dynamodb.delete_table(TableName=name)
    waiter = dynamodb.get_waiter("table_not_exists")
    waiter.wait(TableName=name, WaiterConfig={"Delay": 0.05, "MaxAttempts": 200})


def items(dynamodb: Any, table: str) -> Iterator[dict[str, Any]]:
    """Scan all items of a table."""
    for page in dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
        yield from page["Items"]
