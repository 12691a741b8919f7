"""Warnings about a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from ddbload.aws.table_description import has_statements, recent_traffic, table_notices
from ddbload.contracts.options import Options
from tests.fakes.client import ServiceError
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.stubbed_clients import Clients

NOW = 1_800_000_000.0
END = datetime.fromtimestamp(NOW, UTC)
ASKED = {
    "Namespace": "AWS/DynamoDB",
    "MetricName": "ConsumedWriteCapacityUnits",
    "Dimensions": [{"Name": "TableName", "Value": "books"}],
    "StartTime": END - timedelta(hours=1),
    "EndTime": END,
    "Period": 60,
    "Statistics": ["Sum"],
}


def points(*sums):
    return {"Datapoints": [{"Sum": each, "Timestamp": END} for each in sums]}


def recovery(status):
    return {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": status},
        }
    }


def notices(status, sums, options):
    clients = Clients()
    dynamodb, cloudwatch = clients.stub("dynamodb"), clients.stub("cloudwatch")
    clients.dynamodb = dynamodb.client
    with dynamodb, cloudwatch:
        dynamodb.add_response("describe_continuous_backups", recovery(status))
        cloudwatch.add_response("get_metric_statistics", points(*sums), ASKED)
        return list(table_notices(clients, "books", options, NOW))


def test_table_with_traffic_and_without_recovery_is_warned_of():
    found = notices("DISABLED", (600.0, 6000.0), Options())
    assert len(found) == 2
    assert "no point-in-time recovery" in found[0]
    assert "consumed 6,600 write units in the last hour (at most 100 a second)" in found[1]
    assert "--max-wcu 50%" in found[1]


@pytest.mark.parametrize("options", [Options(max_wcu=100), Options(max_wcu_percent=50)])
def test_run_with_a_budget_is_not_warned_of_traffic(options):
    assert notices("ENABLED", (600.0,), options) == []


def test_missing_permissions_are_no_warnings():
    clients = Clients()
    dynamodb, cloudwatch = clients.stub("dynamodb"), clients.stub("cloudwatch")
    clients.dynamodb = dynamodb.client
    with dynamodb, cloudwatch:
        dynamodb.add_client_error("describe_continuous_backups", "AccessDeniedException")
        cloudwatch.add_client_error("get_metric_statistics", "AccessDenied")
        assert list(table_notices(clients, "books", Options(), NOW)) == []


@pytest.mark.parametrize(
    ("dynamodb", "cloudwatch", "asked"),
    [
        ("https://dynamodb.eu-west-1.amazonaws.com", "https://monitoring.amazonaws.com", True),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000", True),
        # The table of an emulator has no metrics in AWS, and another table has its name.
        ("http://127.0.0.1:8000", "https://monitoring.eu-west-1.amazonaws.com", False),
    ],
)
def test_metrics_of_another_cloud_are_not_read(dynamodb, cloudwatch, asked):
    calls = []

    def read(**_):
        calls.append(1)
        return points(60.0)

    def client(url):
        return SimpleNamespace(meta=SimpleNamespace(endpoint_url=url), get_metric_statistics=read)

    clients = SimpleNamespace(dynamodb=client(dynamodb), advisory=lambda _: client(cloudwatch))
    assert (recent_traffic(clients, "books", NOW) is not None) == asked
    assert bool(calls) == asked


class OfEndpoint:
    """Clients of a DynamoDB at a URL."""

    def __init__(self, dynamodb, url="http://127.0.0.1:8000"):
        self.dynamodb = dynamodb
        self.dynamodb.meta.endpoint_url = url


@pytest.mark.parametrize("known", [True, False])
def test_endpoint_is_asked_whether_it_knows_statements(known):
    dynamodb = FakeDynamoDB()
    dynamodb.knows_statements = known
    assert has_statements(OfEndpoint(dynamodb)) is known
    assert [call.operation for call in dynamodb.calls] == ["batch_execute_statement"]


def test_aws_is_not_asked_whether_it_knows_statements():
    dynamodb = FakeDynamoDB()
    assert has_statements(OfEndpoint(dynamodb, "https://dynamodb.eu-west-1.amazonaws.com"))
    assert dynamodb.calls == []


def test_endpoint_that_fails_by_any_statement_is_sent_none():
    """moto answers with a page and status 500, whatever the statement is."""
    dynamodb = FakeDynamoDB()
    dynamodb.faults.add("batch_execute_statement", Fault(raises=ServiceError("500", 500, "page")))
    assert not has_statements(OfEndpoint(dynamodb))
