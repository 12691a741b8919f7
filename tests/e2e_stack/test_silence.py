"""After all the others: what rows hold is in the tables and the rejects, and nowhere else."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.e2e_stack.files import HEADER, MARKER, bad_rows, rows
from tests.e2e_stack.runs import load

MANY = 20
"""Segments of a run to look at: the others are no different."""


@pytest.fixture(scope="module", autouse=True)
def silent(stack):
    """Import a file, so that there are logs also if these tests run alone."""
    data = (HEADER + rows(30) + bad_rows(2)).encode()
    load(stack, data, run="silent", chunk_bytes=400).succeeds()


def test_logs_contain_no_row_data(stack, log_folder):
    files = [path for path in log_folder.rglob("*") if path.is_file()]
    text = "".join(path.read_text("utf-8", "replace") for path in files)
    assert "START RequestId" in text
    assert MARKER not in text
    assert '"level":"ERROR"' not in text


def test_ledger_contains_no_row_data_but_rejects(stack):
    """It names rows by line and byte; only rejects have their text."""
    client = stack.cloud.s3
    seen = Counter()
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=stack.work):
        for key in (each["Key"] for each in page.get("Contents", ())):
            # Beside runs/ there are the order of uploads, the history and the index of runs.
            root, run, name = [*key.split("/", 2), ""][:3]
            seen[root, run, name.partition("/")[0]] += 1
            many = seen["runs", run, "chunks"] > MANY
            if root == "runs" and (name.startswith("rejects/") or many):
                continue
            data = client.get_object(Bucket=stack.work, Key=key)["Body"].read()
            assert MARKER.encode() not in data, key
    assert seen["runs", "silent", "chunks"] > 2
    assert seen["runs", "silent", "rejects"] > 0


def test_failed_uploads_log_no_row_data(stack):
    """There are none."""
    url = stack.outputs["UploadDeadLetterQueueUrl"]
    answer = stack.cloud.client("sqs").receive_message(QueueUrl=url)
    assert json.dumps(answer.get("Messages", [])) == "[]"
