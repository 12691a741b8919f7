"""Upload events as EventBridge delivers them, and the runs that they start."""

from __future__ import annotations

import json

from tests.e2e_stack.runs import Run


def run_of(stack, arn):
    return Run(stack, json.loads(describe(stack, arn)["input"])["run"]["id"], arn)


def describe(stack, arn):
    return stack.cloud.stepfunctions.describe_execution(executionArn=arn)


def event(stack, key, version, bucket=None):
    """Make the event that EventBridge delivers for an upload.

    See "Amazon S3 event notification detail objects".
    """
    bucket = bucket or stack.inbox
    head = stack.cloud.s3.head_object(Bucket=bucket, Key=key, VersionId=version)
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": "Object Created",
        "source": "aws.s3",
        "account": "123456789012",
        "time": "2026-01-01T00:00:00Z",
        "region": stack.cloud.aws.region,
        "resources": [f"arn:aws:s3:::{bucket}"],
        "detail": {
            "version": "0",
            "bucket": {"name": bucket},
            "object": {
                "key": key,
                "size": head["ContentLength"],
                "etag": head["ETag"].strip('"'),
                "version-id": version,
                "sequencer": "00617F08299329D189",
            },
            "request-id": "N4N7GDK58NMKJ12R",
            "requester": "123456789012",
            "source-ip-address": "1.2.3.4",
            "reason": "PutObject",
        },
    }


def deliver(stack, given):
    """Call on_upload with an event that does not come by the queue, and wait for its answer."""
    answer = stack.cloud.lambda_.invoke(
        FunctionName=stack.function("on_upload"), Payload=json.dumps(given)
    )
    assert "FunctionError" not in answer, answer["Payload"].read()
    return json.loads(answer["Payload"].read())
