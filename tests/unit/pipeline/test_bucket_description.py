"""The bucket that a run writes to is there, and may be looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from ddbload.aws.retry import RetryPolicy
from ddbload.context import AccessPolicy
from ddbload.contracts.payload import Payload
from ddbload.contracts.target import OBJECT_KEY
from ddbload.errors import AccessDenied, AwsConfiguration, BucketNotFound, InvalidPayload
from ddbload.pipeline.table_description import describe_target

TARGET = {"bucket": "shop", "prefix": "é/", "key": "{id}"}
PAYLOAD = Payload.from_json({"source": {"path": "/x"}, "target": TARGET})
POLICY = RetryPolicy(attempts=2, sleep=lambda _: None)


def clients(*script: Any, listed: Any = None) -> Any:
    """Answer HEAD by a script of statuses, and listings by `listed`, a status and a code."""
    answers = list(script)

    def refuse(status: int, code: str) -> None:
        error: Any = {"Error": {"Code": code, "Message": "told"}}
        error["ResponseMetadata"] = {"HTTPStatusCode": status}
        raise ClientError(error, "HeadBucket")

    def head_bucket(**parameters: Any) -> Any:
        assert parameters == {"Bucket": "shop"}
        answer = answers.pop(0)
        if isinstance(answer, int):
            refuse(answer, str(answer))
        return answer

    def list_objects_v2(**parameters: Any) -> None:
        assert parameters == {"Bucket": "shop", "MaxKeys": 1}
        refuse(*listed)

    s3 = SimpleNamespace(head_bucket=head_bucket, list_objects_v2=list_objects_v2)
    return SimpleNamespace(s3=s3)


def test_bucket_stands_for_a_table_whose_key_is_the_objects():
    found = describe_target(PAYLOAD, clients(503, {}), retry_policy=POLICY, suggest=True)
    table, described = found
    assert described is None
    assert (table.name, table.id, table.kind) == ("s3://shop/é/", "s3://shop/é/", "bucket")
    (key,) = table.keys
    assert (key.name, key.type, key.max_bytes) == (OBJECT_KEY, "S", 1024 - 3)


@pytest.mark.parametrize(
    ("status", "listed", "error", "told"),
    [
        (404, None, BucketNotFound, "aws s3 mb s3://shop"),
        (403, (403, "AccessDenied"), AccessDenied, "s3:ListBucket"),
        (403, (403, "RequestTimeTooSkewed"), AccessDenied, "check this machine's clock"),
        (400, (400, "ExpiredToken"), AccessDenied, "log in again"),
        (400, (400, "AuthorizationHeaderMalformed"), AwsConfiguration, "another region"),
        (301, None, AwsConfiguration, "give --region"),
    ],
)
def test_bucket_that_cannot_be_written_is_named(status, listed, error, told):
    looking = clients(status, listed=listed)
    with pytest.raises(error) as refused:
        describe_target(PAYLOAD, looking, retry_policy=POLICY, suggest=True)
    assert told in refused.value.message


def test_a_name_that_no_bucket_has_is_not_looked_for():
    def head_bucket(**_: Any) -> None:
        raise ParamValidationError(report="Invalid bucket name")

    looking: Any = SimpleNamespace(s3=SimpleNamespace(head_bucket=head_bucket))
    with pytest.raises(BucketNotFound, match="ARN with colons alone"):
        describe_target(PAYLOAD, looking, retry_policy=POLICY, suggest=True)


def test_deployments_write_to_tables_alone():
    AccessPolicy(paths=True).check_target(PAYLOAD)
    with pytest.raises(InvalidPayload, match="the deployed state machine works with tables"):
        AccessPolicy(tables=frozenset({"books"})).check_target(PAYLOAD)
