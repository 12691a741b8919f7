"""Files with a canary in every cell, and a search for canaries where none may be."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import Console
from tests.fakes.client import ServiceError
from tests.fakes.dynamodb_faults import Fault
from tests.fakes.dynamodb_tables import keyed
from tests.faults import catalogue
from tests.faults.catalogue import Named
from tests.faults.server import FaultServer

MARK = "Ary7f3aQz"
"""In every cell: `cañAry7f3aQz-17-name/+"`, which JSON, URLs and base64 write differently."""
ROWS = 600
TABLE = keyed("birds", id="S")


def cell(row: int | str, column: str) -> str:
    return f"cañ{MARK}-{row}-{column}/+"


def _spellings() -> list[bytes]:
    """MARK as bytes, in hexadecimal, in UTF-16, and in base64 at each of three offsets."""
    raw = MARK.encode()
    found = [raw, raw.hex().encode(), raw.hex().upper().encode(), MARK.encode("utf-16-le")]
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).rstrip(b"=")
        # Without the characters that the neighbours share.
        found.append(encoded[(4 if offset else 0) : -1])
    return found


SPELLINGS = re.compile(b"|".join(map(re.escape, _spellings())))


def good(row: int | str) -> str:
    return f"{cell(row, 'id')},{row},{cell(row, 'name')}\n"


def bad_rows() -> bytes:
    """One row for each cause of a reject, and a canary in each of its cells."""
    rows = [
        f"{cell('few', 'id')},1\n",
        f"{cell('many', 'id')},1,{cell('many', 'name')},{cell('many', 'more')}\n",
        f"{cell('number', 'id')},{cell('number', 'n')},x\n",
        f"{'k' * 3000}{cell('key', 'id')},1,x\n",
        f",1,{cell('empty', 'name')}\n",
        f'"{cell("quote", "id")}"{cell("quote", "rest")},1,x\n',
        f"{cell('large', 'id')},1,{cell('large', 'name') * 20_000}\n",
    ]
    return "".join(rows).encode() + f"{cell('bytes', 'id')},1,".encode() + b"\xff\xfe\n"


def content() -> bytes:
    rows = [good(row) for row in range(ROWS)]
    return b"id,n,name\n" + "".join(rows).encode() + bad_rows()


def _quotes(status: int, code: str) -> Named:
    """A fault whose message quotes the items that were sent."""

    def fault(params: dict[str, Any]) -> Fault:
        return Fault(raises=ServiceError(code, status, f"what is {json.dumps(params)[:2000]}?"))

    return Named(f"{status}, the message quotes the items", fault)


@pytest.fixture
def server(monkeypatch) -> Iterator[FaultServer]:
    monkeypatch.setitem(catalogue.FAULTS, "quotes_500", _quotes(500, "InternalServerError"))
    throttled = _quotes(400, "ProvisionedThroughputExceededException")
    monkeypatch.setitem(catalogue.FAULTS, "quotes_throttle", throttled)
    refused = _quotes(400, "AccessDeniedException")
    monkeypatch.setitem(catalogue.FAULTS, "quotes_refused", refused)
    with FaultServer(drip_seconds=0.05, stall_seconds=0.1) as running:
        running.dynamodb.create_table(**TABLE)
        yield running


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def assert_silent(console: Console, *streams: str) -> None:
    """Search the streams, the ledger, temporary files and whatever else was written."""
    for stream in streams:
        found = SPELLINGS.search(stream.encode())
        assert found is None, stream[max(0, found.start() - 200) : found.end() + 200]
    places = [path for path in _files(console.folder.parent) if "rejects" not in str(path)]
    assert places
    leaks = [
        str(path)
        for path in places
        if path.suffix not in (".csv", ".gz")
        and (SPELLINGS.search(path.read_bytes()) or SPELLINGS.search(str(path).encode()))
    ]
    assert leaks == []
    assert console.leftovers() == []
