"""Services that cannot be reached."""

from __future__ import annotations

import socket
import time

import pytest

LONG = 30.0
"""Seconds. Six tries with full jitter take at most 3.1, and the command needs time to start."""


@pytest.fixture
def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("service", ["DYNAMODB", "S3"])
def test_import_gives_up_when_service_is_unreachable(console, closed_port, service):
    console.write("a.csv", "id,name\n1,one\n")
    source = {"DYNAMODB": "a.csv", "S3": "s3://bucket/a.csv"}[service]
    endpoint = {f"AWS_ENDPOINT_URL_{service}": f"http://127.0.0.1:{closed_port}"}
    started = time.monotonic()
    ended = console.ddbload("import", source, "table", **endpoint)
    assert time.monotonic() - started < LONG
    assert (ended.code, ended.out) == (1, "")
    assert ended.told.startswith("ddbload: ServiceUnavailable: ")
    assert "Could not connect" in ended.err
    assert ended.told.count("\n") == 1
