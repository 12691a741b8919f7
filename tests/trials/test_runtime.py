"""The asset in a read-only folder, under AWS's runtime client and the runtime's Python."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest

from bench.start import IN_RUNTIME
from ddbload.contracts import upload_rule as deployed
from infra import ROOT, bundling
from infra.settings import Settings
from localaws.functions.function import Function
from localaws.functions.logs import LogShipper
from localaws.functions.memory import MemoryWatch
from localaws.functions.worker import SharedResources, Worker
from tests.cli.conftest import CREDENTIALS
from tests.cli.transcript import items, make_table
from tests.e2e.expected import by_key, expected, read_rejects
from tests.oracle.csv_machine import read_rows

RUNTIME = Settings().runtime
PACKAGES = ("awslambdaric", "simplejson", "snapshot-restore-py", *IN_RUNTIME)
"""Packages that the runtime has, but jmespath, which the asset must have."""
ROLE = "arn:aws:iam::123456789012:role/ddbload"
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
DATA = b"id,name\n" + b"".join(
    b"%d,it's \xc3\xa9\n" % number if number % 40 else b",no key\nx,y,z\n" for number in range(900)
)


def as_an_ordinary_user() -> None:
    """Take root's permission to write read-only folders from what this thread starts."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, runtime_python: str) -> str:
    """Python of the runtime, with the runtime's packages in the versions of locks/dev.txt."""
    folder = tmp_path_factory.mktemp("runtime")
    locked = (ROOT / "locks" / "dev.txt").read_text("utf-8")
    parts = (re.search(rf"^{name}==.*\n(?:    .*\n)*", locked, re.MULTILINE) for name in PACKAGES)
    (folder / "packages.txt").write_text("".join(part[0] for part in parts if part))
    made = folder / "bin" / "python"
    subprocess.run([runtime_python, "-m", "venv", "--without-pip", folder], check=True)
    install = ("pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", made)
    subprocess.run(
        [ROOT / ".venv/bin/uv", *install, "--requirement", folder / "packages.txt"],
        env={**os.environ, "UV_SYSTEM_CERTS": "true"},
        check=True,
    )
    return str(made)


@pytest.fixture(scope="module")
def asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task") / "asset"
    folder.mkdir()
    bundling.bundle(folder, RUNTIME)
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)
    return folder


@pytest.fixture
def invoke(python: str, asset: Path, account: Mapping[str, str], tmp_path: Path, monkeypatch):
    """Invoke a function, in a new process each time, as the emulation of AWS does."""
    monkeypatch.setattr(sys, "executable", python)
    endpoints = {
        "AWS_ENDPOINT_URL": account["AWS_ENDPOINT_URL_S3"],
        "AWS_ENDPOINT_URL_DYNAMODB": account["AWS_ENDPOINT_URL_DYNAMODB"],
    }
    shared = SharedResources(tmp_path, tmp_path / "log", endpoints, MemoryWatch(), LogShipper())

    def invoke(step: str, event: object, **variables: str) -> dict[str, Any]:
        function = Function(
            arn=f"arn:aws:lambda:us-east-1:123456789012:function:{step}",
            name=step,
            version="1",
            handler=f"lambdas.{step}.handler",
            runtime=RUNTIME,
            role=ROLE,
            region="us-east-1",
            memory_mb=512,
            timeout_seconds=60,
            log_group="log",
            variables=tuple(variables.items()),
            code_hash="",
            code=b"",
        )
        with ThreadPoolExecutor(1, initializer=as_an_ordinary_user) as thread:
            assert thread.submit(subprocess.call, ["touch", asset / "new"]).result() != 0
            worker = thread.submit(Worker, function, asset, tmp_path, shared).result()
        with closing(worker):
            outcome = worker.invoke(json.dumps(event).encode())
        assert not outcome.failed, (outcome.payload, outcome.log_tail)
        result: dict[str, Any] = json.loads(outcome.payload)
        return result

    return invoke


@pytest.mark.parametrize(("small_bytes", "options"), [(1 << 20, {}), (0, {"chunk_bytes": 4000})])
def test_upload_is_imported_by_functions_that_cannot_write_their_folder(
    invoke, asset, account, dynamodb, s3, small_bytes, options
):
    tag = RUNTIME.replace("python", "cpython-").replace(".", "")
    assert list(asset.glob(f"lambdas/__pycache__/preflight.{tag}.pyc"))
    name = f"runtime-{uuid.uuid4().hex[:12]}"
    inbox, work = f"{name}-inbox", f"{name}-work"
    make_table(dynamodb, name, "id:S")
    for bucket in (inbox, work):
        s3.create_bucket(Bucket=bucket)
    etag = s3.put_object(Bucket=inbox, Key="in/rows.csv", Body=DATA)["ETag"]
    endpoint = account["AWS_ENDPOINT_URL_S3"]
    stepfunctions = boto3.client("stepfunctions", endpoint_url=endpoint, **CREDENTIALS)
    machine = stepfunctions.create_state_machine(
        name=name,
        definition='{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}',
        roleArn=ROLE,
    )["stateMachineArn"]
    variables = {
        deployed.WORK_BUCKET: work,
        deployed.INBOX: inbox,
        deployed.SOURCE_BUCKETS: inbox,
        deployed.ACCOUNT: "123456789012",
        deployed.TABLES: name,
        deployed.STATE_MACHINE: machine,
        deployed.SMALL_BYTES: str(small_bytes),
        deployed.UPLOADS: json.dumps([{"prefix": "in/", "table": name, "options": options}]),
    }
    uploaded = {"key": "in/rows.csv", "size": len(DATA), "etag": etag.strip('"'), "sequencer": "0A"}
    body = json.dumps({"detail": {"bucket": {"name": inbox}, "object": uploaded}})
    done = invoke("on_upload", {"Records": [{"messageId": "m", "body": body}]}, **variables)
    assert done == {"batchItemFailures": []}
    (started,) = stepfunctions.list_executions(stateMachineArn=machine)["executions"]
    arn = started["executionArn"]
    given = json.loads(stepfunctions.describe_execution(executionArn=arn)["input"])
    state = {"input": given, "run": started["name"], "execution": arn, "cursor": None}
    state = invoke("preflight", {"state": state, "redrives": 0}, **variables)
    assert ("status" in state) == bool(small_bytes)
    run = f"runs/{state['run']}"
    if not small_bytes:
        groups = json.load(s3.get_object(Bucket=work, Key=f"{run}/manifest.json")["Body"])
        assert sum(len(each["chunks"]) for each in groups) == state["chunks"] > 1
        for group in groups:
            task = {"run": state["run"], "chunks": group["chunks"], "stalled": 0}
            assert invoke("import_chunk", task, **variables)["chunks"] == []
        state = invoke("report", {"state": state, "redrives": 0}, **variables)
    wanted = expected(DATA, read_rows(DATA)[1:], ["id", "name"])
    assert (state["status"], state["error"]) == ("SUCCEEDED_WITH_REJECTS", None)
    assert by_key(items(dynamodb, name), "id") == wanted.items
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket=work, Prefix=f"{run}/")["Contents"]]
    texts = [
        s3.get_object(Bucket=work, Key=key)["Body"].read() for key in keys if "/rejects/" in key
    ]
    assert sorted(read_rejects(b"".join(texts).decode().splitlines())) == sorted(wanted.rejects)
