"""What doctor makes of AWS's answers, which botocore's Stubber gives."""

from __future__ import annotations

from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import ANY, Stubber

from ddbload import __version__
from ddbload.doctor.checks import check_aws
from ddbload.errors import AccessDenied

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
ROLE = "arn:aws:sts::123456789012:assumed-role/Loader/me"
TABLE_ACTIONS = tuple(
    f"dynamodb:{each}"
    for each in (
        *("DescribeTable", "BatchWriteItem", "PutItem"),
        *("PartiQLInsert", "UpdateItem", "DeleteItem"),
    )
)
SERVICES = ("sts", "dynamodb", "s3", "iam", "lambda", "cloudformation")


class StubbedClients:
    """Clients of boto3 whose answers a test lists; what is not listed is an error."""

    def __init__(self):
        self.made = {
            name: boto3.client(
                name, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
            )
            for name in SERVICES
        }
        self.stubs = {name: Stubber(client) for name, client in self.made.items()}
        for stub in self.stubs.values():
            stub.activate()
        self.dynamodb = self.made["dynamodb"]
        self.s3 = self.made["s3"]
        self.cloudformation = self.made["cloudformation"]

    def advisory(self, name):
        return self.made[name]

    def answer(self, service, method, response, expected=None):
        self.stubs[service].add_response(method, response, expected)

    def refuse(self, service, method, code="AccessDenied"):
        self.stubs[service].add_client_error(method, code, "not authorized", http_status_code=403)


@pytest.fixture(scope="module")
def made():
    return StubbedClients()


@pytest.fixture
def clients(made):
    yield made
    for stub in made.stubs.values():
        # A call that was expected and not made would answer another test's.
        stub.assert_no_pending_responses()


def identity(clients, arn=ROLE):
    clients.answer(
        "sts", "get_caller_identity", {"Account": "123456789012", "Arn": arn, "UserId": "u"}
    )


def quotas(clients, *, concurrency=1000, units=40_000):
    clients.answer(
        "lambda", "get_account_settings", {"AccountLimit": {"ConcurrentExecutions": concurrency}}
    )
    clients.answer("dynamodb", "describe_limits", {"TableMaxWriteCapacityUnits": units})


def stack(clients, version=__version__):
    outputs = {
        "StateMachineArn": "arn:aws:states:eu-west-1:123456789012:stateMachine:m",
        "WorkBucketName": "work",
        "InboxBucketName": "inbox",
        **({"Version": version} if version else {}),
    }
    found = {
        "StackName": "ddbload",
        "CreationTime": NOW,
        "StackStatus": "CREATE_COMPLETE",
        "Outputs": [{"OutputKey": k, "OutputValue": v} for k, v in outputs.items()],
    }
    clients.answer("cloudformation", "describe_stacks", {"Stacks": [found]})


def run(clients, table=None, source=None):
    found = list(check_aws(clients, table=table, source=source, stack="ddbload"))
    return {each.check: each for each in found}


def statuses(found):
    return {name: each.status for name, each in found.items()}


def table_of(clients, *, status="ACTIVE", backup="ENABLED"):
    clients.answer(
        "dynamodb",
        "describe_table",
        {
            "Table": {
                "TableStatus": status,
                "TableId": "1",
                "AttributeDefinitions": [
                    {"AttributeName": "isbn", "AttributeType": "S"},
                    {"AttributeName": "year", "AttributeType": "N"},
                ],
                "KeySchema": [
                    {"AttributeName": "isbn", "KeyType": "HASH"},
                    {"AttributeName": "year", "KeyType": "RANGE"},
                ],
                "ProvisionedThroughput": {"WriteCapacityUnits": 1500},
            }
        },
    )
    if status != "ACTIVE":
        return
    clients.answer(
        "dynamodb",
        "describe_continuous_backups",
        {
            "ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": backup},
            }
        },
    )


def simulated(clients, resource, denied=()):
    actions = TABLE_ACTIONS if resource == "table" else (resource,)
    results = [
        {
            "EvalActionName": each,
            "EvalDecision": "implicitDeny" if each in denied else "allowed",
        }
        for each in actions
    ]
    clients.answer(
        "iam",
        "simulate_principal_policy",
        {"EvaluationResults": results},
        {
            "PolicySourceArn": "arn:aws:iam::123456789012:role/Loader",
            "ActionNames": list(actions),
            "ResourceArns": ANY,
        },
    )


def test_all_is_well(clients):
    identity(clients)
    table_of(clients)
    clients.answer("s3", "head_bucket", {})
    for each in ("table", "s3:GetObject", "s3:ListBucket"):
        simulated(clients, each)
    quotas(clients)
    stack(clients)
    found = run(clients, "books", "s3://b/in/a")
    assert set(statuses(found).values()) == {"ok"}
    assert found["table"].message == (
        "books: keys isbn (S), year (N); 1,500 write units a second (provisioned for the table)"
    )
    assert found["bucket"].message == "b in eu-west-1"
    assert "may dynamodb:DescribeTable, dynamodb:BatchWriteItem" in found["permissions"].message


def test_new_account_is_warned(clients):
    identity(clients)
    quotas(clients, concurrency=10, units=10_000)
    stack(clients, "0.0.1")
    found = run(clients)
    assert statuses(found) == {
        "credentials": "ok",
        "region": "ok",
        "lambda": "warn",
        "dynamodb": "warn",
        "stack": "warn",
    }
    assert "of ddbload 0.0.1, and this is" in found["stack"].message
    assert found["stack"].advice.startswith("ddbload deploy")


def test_nothing_else_is_asked_without_credentials(clients):
    clients.refuse("sts", "get_caller_identity", "ExpiredToken")
    found = run(clients, "books", "s3://b/k")
    assert statuses(found) == {"credentials": "fail"}
    assert AccessDenied.__name__ in found["credentials"].message


def test_missing_permission_fails_and_names_the_action(clients):
    identity(clients)
    table_of(clients, backup="DISABLED")
    simulated(clients, "table", denied=["dynamodb:BatchWriteItem"])
    quotas(clients)
    stack(clients)
    found = run(clients, "books")
    assert found["permissions"].status == "fail"
    assert found["permissions"].message.endswith("role/Loader may not dynamodb:BatchWriteItem")
    assert found["backup"].status == "warn"


def test_permission_that_only_a_mode_needs_is_a_warning(clients):
    identity(clients)
    table_of(clients)
    simulated(clients, "table", denied=["dynamodb:UpdateItem"])
    quotas(clients)
    stack(clients)
    found = run(clients, "books")["permissions"]
    assert found.status == "warn"
    assert found.message.endswith("may not dynamodb:UpdateItem (mode update)")


def test_root_user_needs_no_simulation(clients):
    identity(clients, "arn:aws:iam::123456789012:root")
    table_of(clients)
    quotas(clients)
    stack(clients)
    assert run(clients, "books")["permissions"].status == "ok"


def test_what_may_not_be_asked_is_a_warning_that_names_it(clients):
    identity(clients)
    table_of(clients, status="CREATING")
    clients.refuse("iam", "simulate_principal_policy")
    clients.refuse("lambda", "get_account_settings")
    clients.refuse("dynamodb", "describe_limits")
    clients.refuse("cloudformation", "describe_stacks")
    found = run(clients, "books")
    assert statuses(found) == {
        "credentials": "ok",
        "region": "ok",
        "table": "fail",
        "permissions": "warn",
        "lambda": "warn",
        "dynamodb": "warn",
        "stack": "warn",
    }
    assert "dynamodb:PutItem" in found["permissions"].message
    assert "AccessDenied" in found["lambda"].message


def test_missing_table_and_bucket_fail(clients):
    identity(clients)
    clients.refuse("dynamodb", "describe_table", "ResourceNotFoundException")
    clients.answer("dynamodb", "list_tables", {"TableNames": ["book"]})
    clients.refuse("s3", "head_bucket", "403")
    for each in ("table", "s3:GetObject", "s3:ListBucket"):
        simulated(clients, each)
    quotas(clients)
    stack(clients)
    found = run(clients, "books", "s3://b/in/")
    assert "there is no table books in eu-west-1" in found["table"].message
    assert found["bucket"].status == "fail"
