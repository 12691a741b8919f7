"""The asset in a read-only folder, under AWS's runtime client and the runtime's Python."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import boto3
import pytest

from bench.start import IN_RUNTIME
from ddbload.contracts import upload_rule as deployed
from infra import ROOT, bundling
from infra.settings import Settings
from localaws.functions import runtime_api
from tests.cli.conftest import CREDENTIALS
from tests.cli.transcript import items, make_table
from tests.e2e.expected import by_key, expected, read_rejects
from tests.oracle.csv_machine import read_rows

RUNTIME = Settings().runtime
PACKAGES = ("awslambdaric", "simplejson", "snapshot-restore-py", *IN_RUNTIME)
"""Packages that the runtime has, but jmespath, which the asset must have."""
BOOTSTRAP = Path(runtime_api.__file__).with_name("bootstrap.py")
ARN = "arn:aws:lambda:us-east-1:123456789012:function:ddbload"
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
DATA = b"id,name\n" + b"".join(
    b"%d,it's \xc3\xa9\n" % number if number % 40 else b",no key\nx,y,z\n" for number in range(900)
)

Invoke = Callable[..., dict[str, Any]]


def as_an_ordinary_user() -> None:
    """Have root's permissions to write end with the program, so that a folder is read-only."""
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


def contents(folder: Path) -> set[tuple[str, int]]:
    return {(str(path), path.stat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.fixture
def invoke(
    python: str, asset: Path, account: Mapping[str, str], tmp_path: Path
) -> Iterator[Invoke]:
    """Invoke a function in a new process; the asset is the same afterwards."""

    def invoke(step: str, event: object, **variables: str) -> dict[str, Any]:
        messages: SimpleQueue[Any] = SimpleQueue()
        api = runtime_api.RuntimeApi(messages)
        call = runtime_api.Invocation("id", json.dumps(event).encode(), time.time() + 600, ARN)
        with (tmp_path / f"{step}.log").open("ab") as log:
            process = subprocess.Popen(
                [python, "-P", "-s", str(BOOTSTRAP), f"lambdas.{step}.handler"],
                cwd=asset,
                env={
                    **account,
                    **variables,
                    "AWS_ENDPOINT_URL": account["AWS_ENDPOINT_URL_S3"],
                    "AWS_LAMBDA_RUNTIME_API": api.address,
                    "AWS_LAMBDA_FUNCTION_NAME": step,
                    "LAMBDA_TASK_ROOT": str(asset),
                    "PYTHONPATH": str(asset),
                    "TMPDIR": str(tmp_path),
                    "_HANDLER": f"lambdas.{step}.handler",
                },
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                preexec_fn=as_an_ordinary_user,  # noqa: PLW1509 - it takes no lock
            )
        try:
            api.send_event(call)
            found = messages.get(timeout=60)
            if isinstance(found, runtime_api.ReadyForEvent):
                found = messages.get(timeout=60)
        finally:
            process.kill()
            process.communicate()
            api.close()
        assert isinstance(found, runtime_api.HandlerResult)
        assert not found.failed, (found.body, (tmp_path / f"{step}.log").read_text())
        result: dict[str, Any] = json.loads(found.body)
        return result

    before = contents(asset)
    yield invoke
    assert contents(asset) == before


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
        roleArn="arn:aws:iam::123456789012:role/ddbload",
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
        chunks = json.load(s3.get_object(Bucket=work, Key=f"{run}/manifest.json")["Body"])
        assert len(chunks) == state["chunks"] > 1
        for chunk in chunks:
            task = {"run": state["run"], "chunk": chunk, "cursor": None, "stalled": 0}
            assert invoke("import_chunk", task, **variables)["cursor"] is None
        state = invoke("report", {"state": state, "redrives": 0}, **variables)
    wanted = expected(DATA, read_rows(DATA)[1:], ["id", "name"])
    assert (state["status"], state["error"]) == ("SUCCEEDED_WITH_REJECTS", None)
    assert by_key(items(dynamodb, name), "id") == wanted.items
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket=work, Prefix=f"{run}/")["Contents"]]
    texts = [
        s3.get_object(Bucket=work, Key=key)["Body"].read() for key in keys if "/rejects/" in key
    ]
    assert sorted(read_rejects(b"".join(texts).decode().splitlines())) == sorted(wanted.rejects)
