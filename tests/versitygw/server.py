"""versitygw on this machine: its program, which Go builds, and a server of a temporary folder."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import boto3
from botocore.config import Config

from tests.e2e.processes import until

HERE = Path(__file__).parent
PROGRAM = HERE.parents[1] / ".versitygw" / "versitygw"
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
HOST = "127.0.0.1"
ACCOUNT = {
    "region_name": "us-east-1",
    "aws_access_key_id": "madeup",
    "aws_secret_access_key": "madeup-secret",
}
WITH_PARENT = '"$@" </dev/null & cat >/dev/null; kill $!; wait $!'
"""Shell script that runs a program until its standard input ends, as it does with its parent."""


@dataclass(frozen=True)
class Gateway:
    """A running versitygw, whose buckets are folders."""

    endpoint: str
    client: Any
    buckets: Path
    versions: Path

    def clear(self) -> None:
        """Remove all buckets."""
        for folder in (self.buckets, self.versions):
            for each in folder.iterdir():
                shutil.rmtree(each)


def build() -> Path:
    """Have Go build the program, which takes minutes the first time only."""
    go = shutil.which("go")
    if go is None:
        raise RuntimeError("go, which builds versitygw, was not found on PATH")
    flags = ("-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", str(PROGRAM))
    subprocess.run([go, "build", *flags, PACKAGE], cwd=HERE, check=True)
    return PROGRAM


@contextmanager
def versitygw(folder: Path) -> Iterator[Gateway]:
    """Run a versitygw without buckets, which keeps everything in a folder, until the block ends."""
    buckets, versions, program = folder / "buckets", folder / "versions", build()
    buckets.mkdir()
    versions.mkdir()
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    keys = (ACCOUNT["aws_access_key_id"], "--secret", ACCOUNT["aws_secret_access_key"])
    command = [
        *("sh", "-c", WITH_PARENT, "sh", str(program), "--quiet", "--port", f"{HOST}:{port}"),
        *("--access", *keys, "--region", ACCOUNT["region_name"], "--health", "/health"),
        *("--keep-alive", "posix", "--versioning-dir", str(versions), str(buckets)),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
    endpoint = f"http://{HOST}:{port}"
    try:
        until(lambda: _is_healthy(f"{endpoint}/health"), f"versitygw does not answer on {endpoint}")
        config = Config(retries={"total_max_attempts": 1})
        client = boto3.client("s3", endpoint_url=endpoint, config=config, **ACCOUNT)
        yield Gateway(endpoint, client, buckets, versions)
    finally:
        process.communicate(timeout=20)


def _is_healthy(url: str) -> bool:
    with suppress(OSError), urlopen(url) as answer:
        return bool(answer.status == 200)
    return False
