"""Every command in README.md, docs/getting-started.md and docs/deploy.md is run here, in order.

What needs an AWS account, `cdk` and the AWS CLI included, is run against AWS on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from localaws import LocalAws
from tests.cli.console import ROOT, Console
from tests.cli.transcript import make_table
from tests.e2e.pages import BOOKS, Reader, aws_command_line, furnish

README = (ROOT / "README.md").read_text("utf-8")
DEPLOY = (ROOT / "docs" / "deploy.md").read_text("utf-8")
START = (ROOT / "docs" / "getting-started.md").read_text("utf-8")


# Dozens of commands in each of three tests, which take minutes on a busy machine.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def account() -> Iterator[LocalAws]:
    """Create the three tables and the bucket that the pages name."""
    with LocalAws() as aws:
        make_table(client(aws, "dynamodb"), "books", "isbn:S")
        make_table(client(aws, "dynamodb"), "words", "word:S", "year:N")
        make_table(client(aws, "dynamodb"), "things", "id:S")
        client(aws, "s3").create_bucket(Bucket="my-bucket")
        yield aws


def client(aws: LocalAws, service: str) -> Any:
    endpoint = aws.dynamodb_endpoint if service == "dynamodb" else aws.endpoint
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=aws.region,
        aws_access_key_id=aws.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=aws.environment["AWS_SECRET_ACCESS_KEY"],
    )


@pytest.fixture(scope="module")
def aws_cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with aws_command_line(tmp_path_factory.mktemp("aws")) as folder:
        yield folder


@pytest.fixture(scope="module")
def syntheses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("syntheses")


@pytest.fixture
def reader(
    account: LocalAws, aws_cli: Path, syntheses: Path, forked: Path, tmp_path: Path
) -> Iterator[Reader]:
    folder = tmp_path / "folder"
    folder.mkdir()
    console = Console(folder, account.environment, forked)
    console.env["PATH"] = os.pathsep.join([str(aws_cli), console.env["PATH"]])
    furnish(console, syntheses)
    yield Reader(console, client(account, "stepfunctions"), client(account, "s3"))
    assert console.leftovers() == []


def test_commands_of_readme_work(reader, account):
    reader.console.write("books.csv", BOOKS)
    reader.s3.put_object(Bucket="my-bucket", Key="in/books.csv", Body=BOOKS.encode())
    reader.console.write("words.tsv", "Emma\t1815\t7\nUbu\t1896\t\n")
    reader.follow(README)
    stacks = client(account, "cloudformation").describe_stacks()["Stacks"]
    assert {stack["StackName"] for stack in stacks} == {"CDKToolkit", "ddbload"}


def test_commands_of_deploy_page_work(reader, account):
    """The page leaves only the resources that it names."""
    reader.console.write("books.csv", BOOKS)
    reader.follow(DEPLOY)
    stacks = client(account, "cloudformation").describe_stacks()["Stacks"]
    assert [stack["StackName"] for stack in stacks] == ["CDKToolkit"]
    buckets = [each["Name"] for each in client(account, "s3").list_buckets()["Buckets"]]
    (assets,) = [name for name in buckets if name != "my-bucket"]
    assert assets.startswith("cdk-")
    assert client(account, "lambda").list_functions()["Functions"] == []
    assert client(account, "stepfunctions").list_state_machines()["stateMachines"] == []
    assert client(account, "logs").describe_log_groups()["logGroups"] == []
    assert client(account, "sqs").list_queues().get("QueueUrls", []) == []
    assert sorted(client(account, "dynamodb").list_tables()["TableNames"]) == [
        "books",
        "things",
        "words",
    ]


def test_commands_of_getting_started_page_work(reader, account):
    """The page creates a table, and at its end removes everything but the bootstrap stack."""
    reader.follow(START)
    stacks = client(account, "cloudformation").describe_stacks()["Stacks"]
    assert [stack["StackName"] for stack in stacks] == ["CDKToolkit"]
    assert "library" not in client(account, "dynamodb").list_tables()["TableNames"]
    names = {each["Name"] for each in client(account, "s3").list_buckets()["Buckets"]}
    assert [name for name in names - {"my-bucket"} if not name.startswith("cdk-")] == []
