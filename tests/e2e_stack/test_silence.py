"""After all the others: what rows hold is in the tables and the rejects, and nowhere else."""

from __future__ import annotations

import json

from tests.e2e_stack.files import MARKER


def test_logs(stack, log_folder):
    """Of functions, in the files and in the log groups that whoever operates it looks at."""
    files = [path for path in log_folder.rglob("*") if path.is_file()]
    text = "".join(path.read_text("utf-8", "replace") for path in files)
    assert "START RequestId" in text
    assert MARKER not in text
    assert '"level":"ERROR"' not in text


def test_the_ledger(stack):
    """It names rows by line and byte; only rejects have their text."""
    client = stack.cloud.s3
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=stack.work):
        for each in page.get("Contents", ()):
            if "/rejects/" not in each["Key"]:
                data = client.get_object(Bucket=stack.work, Key=each["Key"])["Body"].read()
                assert MARKER.encode() not in data, each["Key"]


def test_uploads_that_could_not_start_a_run(stack):
    """There are none."""
    url = stack.outputs["UploadDeadLetterQueueUrl"]
    answer = stack.cloud.client("sqs").receive_message(QueueUrl=url)
    assert json.dumps(answer.get("Messages", [])) == "[]"
