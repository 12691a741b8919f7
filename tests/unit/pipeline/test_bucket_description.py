"""The bucket that a run writes to is there, and may be looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.payload import Payload
from ddbload.contracts.target import OBJECT_KEY
from ddbload.errors import AccessDenied, BucketNotFound, InvalidPayload
from ddbload.pipeline.context import AccessPolicy
from ddbload.pipeline.table_description import describe_target

TARGET = {"bucket": "shop", "prefix": "é/", "key": "{id}"}
PAYLOAD = Payload.from_json({"source": {"path": "/x"}, "target": TARGET})
POLICY = RetryPolicy(attempts=2, sleep=lambda _: None)


def clients(*script: Any) -> Any:
    answers = list(script)

    def head_bucket(**parameters: Any) -> Any:
        assert parameters == {"Bucket": "shop"}
        answer = answers.pop(0)
        if isinstance(answer, int):
            error: Any = {"Error": {"Code": str(answer)}}
            error["ResponseMetadata"] = {"HTTPStatusCode": answer}
            raise ClientError(error, "HeadBucket")
        return answer

    return SimpleNamespace(s3=SimpleNamespace(head_bucket=head_bucket))


def test_bucket_stands_for_a_table_whose_key_is_the_objects():
    found = describe_target(PAYLOAD, clients(503, {}), retry_policy=POLICY, suggest=True)
    table, described = found
    assert described is None
    assert (table.name, table.id, table.kind) == ("s3://shop/é/", "s3://shop/é/", "bucket")
    (key,) = table.keys
    assert (key.name, key.type, key.max_bytes) == (OBJECT_KEY, "S", 1024 - 3)


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [(404, BucketNotFound, "aws s3 mb s3://shop"), (403, AccessDenied, "s3:ListBucket")],
)
def test_bucket_that_cannot_be_written_is_named(status, error, told):
    with pytest.raises(error) as refused:
        describe_target(PAYLOAD, clients(status), retry_policy=POLICY, suggest=True)
    assert told in refused.value.message


def test_deployments_write_to_tables_alone():
    AccessPolicy(paths=True).check_target(PAYLOAD)
    with pytest.raises(InvalidPayload, match="the deployed state machine works with tables"):
        AccessPolicy(tables=frozenset({"books"})).check_target(PAYLOAD)
