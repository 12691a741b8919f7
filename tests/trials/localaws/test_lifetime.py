"""The emulator ends with its parent, and several copies run side by side."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import zipfile

import boto3
import pytest
from botocore.config import Config

from localaws import LocalAws
from tests.cli.console import ROOT
from tests.e2e.processes import alive, children, until

BUSY = """
import time
def handler(event, context):
    open(event["mark"], "w").close()
    time.sleep(600)
"""
STARTER = """
import time
from localaws import LocalAws
with LocalAws() as aws:
    print(aws.pid, aws.endpoint, flush=True)
    time.sleep(600)
"""


def client(service, endpoint):
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )


def keep_a_function_busy(endpoint, pid, mark):
    """Start a long invocation; return the pids of emulator, dynalite and function."""
    trust = {"Version": "2012-10-17", "Statement": []}
    role = client("iam", endpoint).create_role(
        RoleName="busy", AssumeRolePolicyDocument=json.dumps(trust)
    )["Role"]["Arn"]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("busy.py", BUSY)
    functions = client("lambda", endpoint)
    functions.create_function(
        FunctionName="busy",
        Runtime="python3.13",
        Handler="busy.handler",
        Role=role,
        Timeout=900,
        Code={"ZipFile": archive.getvalue()},
    )
    event = json.dumps({"mark": str(mark)})
    functions.invoke(FunctionName="busy", InvocationType="Event", Payload=event)
    until(mark.exists, "the function was not invoked")
    pids = [pid, *children(pid)]
    assert len(pids) == 3
    return pids


def assert_ended(pids):
    until(lambda: not any(alive(pid) for pid in pids), f"some of {pids} still run")


def test_copies_are_separate_and_end_with_their_block(app, tmp_path):
    app.client("s3").create_bucket(Bucket="only-in-one")
    with LocalAws("--region", "eu-central-1") as other:
        assert other.region == other.environment["AWS_REGION"] == "eu-central-1"
        assert other.endpoint != app.aws.endpoint
        found = client("s3", other.endpoint).list_buckets()["Buckets"]
        assert found == []
        assert client("dynamodb", other.dynamodb_endpoint).list_tables()["TableNames"] == []
        pids = keep_a_function_busy(other.endpoint, other.pid, tmp_path / "mark")
    assert_ended(pids)


def test_emulator_ends_when_its_parent_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as starter:
        pid, endpoint = starter.stdout.readline().split()
        pids = keep_a_function_busy(endpoint, int(pid), tmp_path / "mark")
        starter.kill()
    assert_ended(pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_emulator_ends_by_a_signal(number, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "localaws"], stdout=subprocess.PIPE, cwd=ROOT
    ) as running:
        ready = json.loads(running.stdout.readline())
        pids = keep_a_function_busy(ready["endpoint"], running.pid, tmp_path / "mark")
        os.kill(running.pid, number)
        assert running.wait(60) == (0 if number == signal.SIGINT else -number)
        assert running.stdout.read() == b""
    assert_ended(pids)


def test_emulator_listens_on_loopback_only(aws):
    for endpoint in (aws.endpoint, aws.dynamodb_endpoint):
        assert endpoint.startswith("http://127.0.0.1:")
        port = int(endpoint.rsplit(":", 1)[-1])
        # Another address of this machine.
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.2", port), timeout=5)
