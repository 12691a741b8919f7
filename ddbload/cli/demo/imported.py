"""The short demo: `ddbload import` into a strict DynamoDB, and the proof."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ddbload.cli.demo.outcome import proven, show_rejects, text_format
from ddbload.cli.demo.server import dynalite
from ddbload.cli.demo.table import TABLE, Keys, create
from ddbload.cli.options import cores
from ddbload.contracts import DONE


def import_and_prove(path: Path, keys: Keys, folder: Path) -> int:
    """Import a file; the exit status. `folder` is for the ledger. Raises `DemoUnavailable`."""
    with dynalite() as endpoint:
        click.echo(f"DynamoDB (dynalite) listens at {endpoint}")
        return _import(path, keys, endpoint, folder / "ledger")


def _import(path: Path, keys: Keys, endpoint: str, ledger: Path) -> int:
    from ddbload.aws_http.clients import AwsSettings, Clients
    from ddbload.cli.import_command import run_and_tell
    from ddbload.pipeline.conductor import new_run_id
    from ddbload.pipeline.local import LocalSettings
    from ddbload.pipeline.rejects import rejects

    # Made up, and all that an emulator wants: nobody's own credentials take part.
    os.environ.update(AWS_ACCESS_KEY_ID="demo", AWS_SECRET_ACCESS_KEY="demo")  # noqa: S106
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)
    aws = AwsSettings(region="us-east-1", endpoint_url=endpoint)
    client = Clients(aws).dynamodb
    create(client, keys)
    payload: dict[str, Any] = {
        "source": {"path": str(path), "format": text_format(path.name)},
        "target": {"table": TABLE},
        # Small chunks, so that there is something to hand to each worker.
        "options": {"workers": cores(), "chunk_bytes": 64 * 1024},
    }
    settings = LocalSettings(str(ledger), aws)
    run = new_run_id()
    result = run_and_tell(payload, settings, run=run, processes=cores())
    if result.rows.read or result.error is None:
        click.echo("\n".join(line for line in result.lines() if "rejects  " not in line))
    if result.status not in DONE:
        return result.exit_code
    lines = list(rejects(run, settings.context()))
    show_rejects(lines)
    return proven(client, keys, path, lines, otherwise=result.exit_code)
