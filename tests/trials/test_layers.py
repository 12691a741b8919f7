"""A stack with the layers of both extras, made of wheels that pip downloads, reads both formats."""

from __future__ import annotations

import csv
import io
import os
import platform
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from localaws import LocalAws
from tests.e2e_stack.deployed import SOURCES, Cloud
from tests.e2e_stack.files import plain
from tests.e2e_stack.runs import Run

RUNTIME = f"python{sys.version_info.major}.{sys.version_info.minor}"
ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64"}.get(platform.machine())
TEXT = plain(300)
HEADER, *LINES = TEXT.splitlines()
WIDE = [HEADER + b",wide", *(line + b"," + os.urandom(40_000).hex().encode() for line in LINES)]
"""Rows that compress to more than 16 MiB."""
FRAMES = b"".join(zstandard.ZstdCompressor(level=-9).compress(line + b"\n") for line in WIDE)


def parquet() -> bytes:
    names, *lines = csv.reader(TEXT.decode().splitlines())
    columns = dict(zip(names, zip(*lines, strict=True), strict=True))
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.mark.skipif(ARCHITECTURE is None, reason="Lambda does not have this architecture")
def test_deployed_functions_read_the_formats_of_their_layers(tmp_path: Path):
    with LocalAws() as aws:
        load_both(Cloud(aws, tmp_path))


def load_both(cloud: Cloud) -> None:
    knobs = {"extras": "parquet,zstd", "runtime": RUNTIME, "architecture": ARCHITECTURE}
    stack = cloud.deploy("ddbload-layers", [], **knobs)
    for name, data, options in (
        ("frames", FRAMES, {"chunk_bytes": 2_000_000, "workers": 4}),
        ("parquet", parquet(), {}),
    ):
        table = cloud.table()
        payload = {
            "source": {"bucket": SOURCES, "key": stack.put(data), "format": "auto"},
            "target": {"table": table},
            "options": options,
        }
        run = Run(stack, name, stack.start(payload, name))
        assert run.ended.status == "SUCCEEDED", run.ended.cause
        assert run.json("report.json")["rows"]["written"] == 300
        assert len(cloud.items(table)) == 300
        if name == "frames":
            assert run.json("report.json")["chunks"] > 3
