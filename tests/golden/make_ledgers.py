"""Writes the golden ledgers of today's version: `python -m tests.golden.make_ledgers [NAME ...]`.

For a version whose ledgers are there already it writes only the runs that are not, and changes
none: a ledger of an earlier version cannot be made again.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from tests.cli.conftest import ACCOUNT, CREDENTIALS
from tests.cli.console import Console
from tests.golden.runs import RUNS, Golden, Place, Run, save

MACHINE = {"host": "a-host", "boot": "a-boot"}
"""Stands in heartbeats for the machine on which the ledgers were made."""


def main(names: list[str]) -> None:
    """Run each import twice, stopped and unbroken, and write down the outcome."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        for run in RUNS:
            if not names or run.name in names:
                _make(run, endpoint)
    finally:
        server.stop()


def _make(run: Run, s3_endpoint: str) -> None:
    with tempfile.TemporaryDirectory() as folder, _place(Path(folder), s3_endpoint) as place:
        place.put_objects(run)
        place.put_items(run.present)
        ended = place.start_and_stop(run)
        report, exit_code = place.report(run.name)
        ledger = {path: _without_machine(path, text) for path, text in place.read_ledger().items()}
        items, rejects = place.items, place.rejects(run.name)
    keys = sorted(item["id"]["S"] for item in items)
    with tempfile.TemporaryDirectory() as folder, _place(Path(folder), s3_endpoint) as place:
        place.put_objects(run)
        place.put_items(run.present)
        place.ddbload(*run.command)
        unbroken = place.items
    version = json.loads(ledger[f"runs/{run.name}/run.json"])["ledger_version"]
    golden = Golden(ledger, keys, report, exit_code, rejects, unbroken)
    if sorted(map(json.dumps, golden.items)) != sorted(map(json.dumps, items)):
        raise ValueError(f"{run.name}: the unbroken run writes other items")
    save(version, run.name, golden)
    sys.stdout.write(f"{run.name}: import ended with {ended}, report with {exit_code}\n")


def _place(folder: Path, s3_endpoint: str) -> Place:
    (folder / "folder").mkdir()
    console = Console(folder / "folder", {**ACCOUNT, "AWS_ENDPOINT_URL_S3": s3_endpoint})
    return Place(console, boto3.client("s3", endpoint_url=s3_endpoint, **CREDENTIALS))


def _without_machine(path: str, text: str) -> str:
    if not path.endswith("/progress.json"):
        return text
    value: Mapping[str, Any] = json.loads(text)
    return json.dumps({**value, **MACHINE}, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1:])
