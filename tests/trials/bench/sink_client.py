"""A client of the sink for tests."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from bench.rounds import Scenario, SinkProcess


def sink_client(sink_process: SinkProcess, scenario: Scenario, **more: Any) -> Any:
    """Make boto3's client of the sink, which sends each request once."""
    environment = sink_process.environment(scenario)
    return boto3.client(
        "dynamodb",
        endpoint_url=environment["AWS_ENDPOINT_URL_DYNAMODB"],
        region_name="us-east-1",
        aws_access_key_id="made-up",
        aws_secret_access_key="made-up",
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
        **{"verify": environment["AWS_CA_BUNDLE"], **more},
    )
