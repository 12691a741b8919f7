"""The emulator starts, serves signed clients only, and ends. `make trials` tests the rest."""

from __future__ import annotations

import urllib.error
import urllib.request

import boto3
import pytest

from localaws import LocalAws
from tests.e2e.processes import alive, children, until


def test_emulator_serves_its_clients_and_ends_with_its_block():
    with LocalAws("--region", "eu-central-1") as aws:
        pids = [aws.pid, *children(aws.pid)]
        made = {"region_name": aws.region, "aws_access_key_id": "x", "aws_secret_access_key": "x"}
        s3 = boto3.client("s3", endpoint_url=aws.endpoint, **made)
        assert s3.list_buckets()["Buckets"] == []
        dynamodb = boto3.client("dynamodb", endpoint_url=aws.dynamodb_endpoint, **made)
        assert dynamodb.list_tables()["TableNames"] == []
        page = urllib.request.Request(aws.endpoint, headers={"Origin": "http://evil.example"})
        for endpoint in (page, aws.endpoint):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(endpoint)
    until(lambda: not any(map(alive, pids)), f"some of {pids} still run")
