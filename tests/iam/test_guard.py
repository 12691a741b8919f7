from __future__ import annotations

import json

import pytest

from localaws.iam.guard import Guard
from tests.iam.request_helpers import REGION, ROLE, capture_request

READ = {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::b/runs/*"]}
LIST = {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::b"]}
WRITE = {
    "Effect": "Allow",
    "Action": "dynamodb:BatchWriteItem",
    "Resource": f"arn:aws:dynamodb:{REGION}:123456789012:table/books",
}


class Account:
    """Policies of a role, which may change while it is in use."""

    def __init__(self, *statements):
        self.allow(*statements)

    def allow(self, *statements):
        self._documents = {"p": json.dumps({"Version": "2012-10-17", "Statement": statements})}

    def __call__(self, role):
        return self._documents if role == ROLE else {}


@pytest.fixture
def record(tmp_path):
    return tmp_path / "calls.jsonl"


def lines(record):
    return [json.loads(line) for line in record.read_text().splitlines()]


def get(key, bucket="b"):
    return capture_request("s3", "get_object", Bucket=bucket, Key=key)


def test_guard_refuses_in_awss_words_without_an_allow():
    guard = Guard(Account(READ), enforce=True)
    assert guard(ROLE, "s3", REGION, get("runs/1/run.json")) is None
    assert guard(ROLE, "s3", REGION, get("secret")) == (
        "User: arn:aws:sts::123456789012:assumed-role/worker/localaws is not authorized to "
        "perform: s3:GetObject on resource: arn:aws:s3:::b/secret because no identity-based "
        "policy allows the s3:GetObject action"
    )


def test_request_is_refused_without_every_permission():
    guard = Guard(Account(WRITE), enforce=True)
    books = {"books": [{"PutRequest": {"Item": {}}}]}
    other = {"other": [{"PutRequest": {"Item": {}}}]}
    for tables, allowed in ((books, True), (books | other, False), (other | books, False)):
        request = capture_request("dynamodb", "batch_write_item", RequestItems=tables)
        assert (guard(ROLE, "dynamodb", REGION, request) is None) == allowed


def test_guard_records_each_call_once_even_if_not_allowed(record):
    guard = Guard(Account(READ), record=record)
    for _ in range(2):
        assert guard(ROLE, "s3", REGION, get("runs/1/run.json")) is None
        assert guard(ROLE, "s3", REGION, get("secret")) is None
    context = {"s3:ResourceAccount": ROLE.split(":")[4]}
    read = {"role": ROLE, "action": "s3:GetObject", "context": context}
    assert lines(record) == [
        {**read, "resource": "arn:aws:s3:::b/runs/1/run.json", "allowed": True},
        {**read, "resource": "arn:aws:s3:::b/secret", "allowed": False},
    ]


def test_guard_records_and_refuses_an_unknown_call(record):
    request = capture_request("ssm", "get_parameter", Name="p")
    assert Guard(Account(READ), record=record)(ROLE, "ssm", REGION, request) is None
    (line,) = lines(record)
    assert line["role"] == ROLE
    assert "GetParameter" in line["unknown"]
    refusal = Guard(Account(READ), enforce=True)(ROLE, "ssm", REGION, request)
    assert refusal is not None
    assert "does not know which permissions" in refusal


def test_missing_object_is_hidden_without_list_bucket(record):
    missing = get("runs/2/run.json")
    hidden = Guard(Account(READ), enforce=True).check_missing_object(ROLE, REGION, missing)
    assert hidden is not None
    assert "s3:ListBucket on resource: arn:aws:s3:::b " in hidden
    told = Guard(Account(READ, LIST), record=record, enforce=True)
    assert told.check_missing_object(ROLE, REGION, missing) is None
    listed = {"role": ROLE, "action": "s3:ListBucket", "resource": "arn:aws:s3:::b"}
    context = {"s3:ResourceAccount": ROLE.split(":")[4]}
    assert lines(record) == [{**listed, "context": context, "allowed": True}]
    put = capture_request("s3", "put_object", Bucket="b", Key="k", Body=b"")
    assert Guard(Account(READ), enforce=True).check_missing_object(ROLE, REGION, put) is None
