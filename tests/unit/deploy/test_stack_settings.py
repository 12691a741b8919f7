"""What `ddbload deploy` makes of its options, and of what the stack has recorded."""

from __future__ import annotations

import json

import boto3
import pytest
from botocore.stub import Stubber

from ddbload.deploy.stack_settings import (
    check_app_settings,
    default_settings,
    describe_changes,
    find_deployed_stack,
    first_failure,
    merge_settings,
    parse_assignments,
)
from ddbload.deploy.toolchain import copy_app
from ddbload.errors import DeploymentFailed, InvalidUsage, StackNotFound
from infra.settings import Settings

BOOKS = {"prefix": "books/", "table": "books"}
THEIRS = {"prefix": "books/", "table": "books", "bucket": "other"}


def merge(recorded, *, tables=(), source_buckets=(), uploads=(), assigned=()):
    return merge_settings(
        recorded,
        tables=tables,
        source_buckets=source_buckets,
        uploads=uploads,
        assigned=parse_assignments(assigned),
    )


def test_app_records_what_the_next_deployment_starts_from():
    """The round trip: settings, the app's record of them, and an update that changes nothing."""
    context = {
        **default_settings(),
        "tables": ["books", "films"],
        "source_buckets": ["one", "two/in/", {"bucket": "three", "owner": "123456789012"}],
        "uploads": [BOOKS, {**BOOKS, "prefix": "x/", "types": {"year": "N"}, "infer_types": True}],
        "memory_mb": {"report": 512},
        "dashboard": True,
        "import_concurrency": 20,
        "vpc": "vpc-0a1b2c3d",
        "subnets": ["subnet-0a1b2c3d", "subnet-0a1b2c3e"],
        "security_groups": ["sg-0a1b2c3d"],
    }
    settings = Settings.from_context(context)
    recorded = json.loads(json.dumps(settings.to_context()))
    again = merge(recorded)
    assert again == recorded
    assert Settings.from_context({**default_settings(), **again}) == settings
    assert {line[0] for line in describe_changes(recorded, again)} == {" "}


def test_update_adds_and_never_drops():
    recorded = {"tables": ["books"], "source_buckets": ["a"], "uploads": [BOOKS, THEIRS]}
    found = merge(
        recorded,
        tables=["films", "books"],
        source_buckets=["b/in/"],
        uploads=[{"prefix": "books/", "table": "new"}],
    )
    assert found == {
        "tables": ["books", "films", "new"],
        "source_buckets": ["a", "b/in/"],
        # The inbox's rule is replaced, another bucket's is not.
        "uploads": [THEIRS, {"prefix": "books/", "table": "new"}],
    }
    assert describe_changes(recorded, found) == [
        *("  source_buckets: a", "+ source_buckets: b/in/"),
        *("  tables: books", "+ tables: films", "+ tables: new"),
        f"- uploads: {json.dumps(BOOKS)}",
        f"  uploads: {json.dumps(THEIRS)}",
        '+ uploads: {"prefix": "books/", "table": "new"}',
    ]


def test_assignment_replaces_and_shows_what_goes():
    recorded = {"tables": ["books", "films"], "dashboard": True}
    found = merge(recorded, assigned=["tables=films", "dashboard="])
    assert found == {"tables": ["films"]}
    assert describe_changes(recorded, found) == [
        *("- tables: books", "  tables: films"),
        *("- dashboard: true", "+ dashboard: false"),
    ]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["table=books"], "--set table: there is no such setting; did you mean 'tables'?"),
        (["tables"], "is not of the form KEY=VALUE"),
        (["stack_name=x"], "by --stack"),
        (["tracing=true", "tracing=false"], "given twice"),
        (["uploads=books/"], "takes a JSON list"),
        (["cli-telemetry=true"], "no such setting"),
    ],
)
def test_wrong_assignments(texts, message):
    with pytest.raises(InvalidUsage, match=message):
        parse_assignments(texts)


def test_copied_app_checks_settings_without_its_packages(tmp_path):
    app = tmp_path / "app"
    copy_app(app, {"tables": ["books"]})
    assert json.loads((app / "cdk.json").read_text())["context"]["tables"] == ["books"]
    check_app_settings(app, {"tables": ["books"], "uploads": [BOOKS]})
    with pytest.raises(DeploymentFailed, match=r"refused: TableNotListed: .* 'books'"):
        check_app_settings(app, {"uploads": [BOOKS]})


@pytest.fixture
def cloudformation():
    client = boto3.client(
        "cloudformation",
        region_name="eu-west-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    with Stubber(client) as stubber:
        yield client, stubber
        stubber.assert_no_pending_responses()


def stack(status="CREATE_COMPLETE", description="ddbload: loads S3 objects"):
    return {
        "Stacks": [
            {
                "StackName": "s",
                "StackStatus": status,
                "Description": description,
                "CreationTime": "2026-01-01",
            }
        ]
    }


def test_stack_of_somebody_else_is_refused(cloudformation):
    client, stubber = cloudformation
    stubber.add_response("describe_stacks", stack(description="shop"))
    with pytest.raises(StackNotFound, match="is not a ddbload stack"):
        find_deployed_stack(client, "s")


@pytest.mark.parametrize(
    ("template", "version", "settings"),
    [
        (
            {"Metadata": {"ddbload": {"version": "0.1", "settings": {"tables": ["a"]}}}},
            "0.1",
            ["a"],
        ),
        ({"Metadata": {}}, None, None),
        ({}, None, None),
    ],
)
def test_settings_of_a_stack(cloudformation, template, version, settings):
    client, stubber = cloudformation
    stubber.add_response("describe_stacks", stack())
    stubber.add_response("get_template", {"TemplateBody": json.dumps(template)})
    found = find_deployed_stack(client, "s")
    assert (found.version, found.settings and found.settings["tables"]) == (version, settings)


def test_first_failure_names_the_resource(cloudformation):
    client, stubber = cloudformation

    def event(name, status, reason):
        return {
            "StackId": "s",
            "EventId": "e",
            "StackName": "s",
            "Timestamp": "2026-01-01",
            "LogicalResourceId": name,
            "ResourceStatus": status,
            "ResourceStatusReason": reason,
        }

    events = [
        event("s", "DELETE_FAILED", "The following resources failed"),
        event("Later", "DELETE_FAILED", "cancelled"),
        event("Role", "DELETE_FAILED", "must detach all policies first"),
    ]
    stubber.add_response("describe_stack_events", {"StackEvents": events})
    assert first_failure(client, "s") == "Role: must detach all policies first"
