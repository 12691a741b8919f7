from __future__ import annotations

import json

import pytest

from localaws.iam.guard import Guard
from tests.iam.request_helpers import REGION, ROLE, sent

READ = {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::b/runs/*"]}
LIST = {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::b"]}
WRITE = {
    "Effect": "Allow",
    "Action": "dynamodb:BatchWriteItem",
    "Resource": f"arn:aws:dynamodb:{REGION}:123456789012:table/books",
}


class Account:
    """Roles whose policies change while they are in use."""

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
    return sent("s3", "get_object", Bucket=bucket, Key=key)


def test_what_no_statement_allows_is_refused_in_the_words_of_aws():
    guard = Guard(Account(READ), enforce=True)
    assert guard(ROLE, "s3", REGION, get("runs/1/run.json")) is None
    assert guard(ROLE, "s3", REGION, get("secret")) == (
        "User: arn:aws:sts::123456789012:assumed-role/worker/localaws is not authorized to "
        "perform: s3:GetObject on resource: arn:aws:s3:::b/secret because no identity-based "
        "policy allows the s3:GetObject action"
    )


def test_what_a_statement_denies_is_refused_in_other_words():
    guard = Guard(Account(READ, {**READ, "Effect": "Deny"}), enforce=True)
    refusal = guard(ROLE, "s3", REGION, get("runs/1/run.json"))
    assert refusal is not None
    assert refusal.endswith("with an explicit deny in an identity-based policy")


def test_a_request_needs_every_one_of_its_rights():
    guard = Guard(Account(WRITE), enforce=True)
    books = {"books": [{"PutRequest": {"Item": {}}}]}
    other = {"other": [{"PutRequest": {"Item": {}}}]}
    for tables, allowed in ((books, True), (books | other, False), (other | books, False)):
        request = sent("dynamodb", "batch_write_item", RequestItems=tables)
        assert (guard(ROLE, "dynamodb", REGION, request) is None) == allowed


def test_calls_are_written_down_once_each_also_those_that_are_not_allowed(record):
    guard = Guard(Account(READ), record=record)
    for _ in range(2):
        assert guard(ROLE, "s3", REGION, get("runs/1/run.json")) is None
        assert guard(ROLE, "s3", REGION, get("secret")) is None
    read = {"role": ROLE, "action": "s3:GetObject"}
    assert lines(record) == [
        {**read, "resource": "arn:aws:s3:::b/runs/1/run.json", "allowed": True},
        {**read, "resource": "arn:aws:s3:::b/secret", "allowed": False},
    ]


def test_what_is_not_known_is_written_down_and_refused(record):
    request = sent("ssm", "get_parameter", Name="p")
    assert Guard(Account(READ), record=record)(ROLE, "ssm", REGION, request) is None
    (line,) = lines(record)
    assert line["role"] == ROLE
    assert "GetParameter" in line["unknown"]
    refusal = Guard(Account(READ), enforce=True)(ROLE, "ssm", REGION, request)
    assert refusal is not None
    assert "does not know which permissions" in refusal


def test_a_policy_that_cannot_be_judged_allows_nothing_and_says_so(record):
    guard = Guard(Account({**READ, "NotResource": "*"}), record=record, enforce=True)
    refusal = guard(ROLE, "s3", REGION, get("runs/1/run.json"))
    assert refusal is not None
    assert "NotResource" in refusal
    (line,) = lines(record)
    assert line["allowed"] is False
    assert "NotResource" in line["unsupported"]


def test_a_role_that_does_not_exist_may_do_nothing():
    guard = Guard(Account(READ), enforce=True)
    assert guard(f"{ROLE}2", "s3", REGION, get("runs/1/run.json")) is not None


def test_changed_policies_count_at_once():
    account = Account(READ)
    guard = Guard(account, enforce=True)
    assert guard(ROLE, "s3", REGION, get("runs/1/run.json")) is None
    account.allow(LIST)
    assert guard(ROLE, "s3", REGION, get("runs/1/run.json")) is not None


def test_only_who_may_list_a_bucket_learns_that_an_object_is_missing(record):
    missing = get("runs/2/run.json")
    hidden = Guard(Account(READ), enforce=True).check_missing_object(ROLE, REGION, missing)
    assert hidden is not None
    assert "s3:ListBucket on resource: arn:aws:s3:::b " in hidden
    told = Guard(Account(READ, LIST), record=record, enforce=True)
    assert told.check_missing_object(ROLE, REGION, missing) is None
    assert lines(record) == [
        {"role": ROLE, "action": "s3:ListBucket", "resource": "arn:aws:s3:::b", "allowed": True}
    ]
    put = sent("s3", "put_object", Bucket="b", Key="k", Body=b"")
    assert Guard(Account(READ), enforce=True).check_missing_object(ROLE, REGION, put) is None


def test_without_enforcement_nothing_is_refused(record):
    guard = Guard(Account(), record=record)
    assert guard(ROLE, "s3", REGION, get("secret")) is None
    assert guard.check_missing_object(ROLE, REGION, get("secret")) is None
    assert [(line["action"], line["allowed"]) for line in lines(record)] == [
        ("s3:GetObject", False),
        ("s3:ListBucket", False),
    ]
