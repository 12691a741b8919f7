"""Write capacity of a table, and the limits of a run that follow from it."""

from __future__ import annotations

import pytest

from ddbload.aws.table_description import choose_workers, write_capacity
from ddbload.contracts.options import Options
from ddbload.errors import BackupRequired, InvalidPayload
from ddbload.steps.checks import resolve_limits
from tests.unit.steps.stubbed_clients import Clients
from tests.unit.steps.world import World

ON_DEMAND = {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}
PROVISIONED = {"ProvisionedThroughput": {"WriteCapacityUnits": 300, "ReadCapacityUnits": 5}}
EVERY_COLUMN = b"id,a\n" + b"1,2\n" * 100


def warm(units):
    return {"WarmThroughput": {"WriteUnitsPerSecond": units, "Status": "ACTIVE"}}


def capped(units):
    return {"OnDemandThroughput": {"MaxWriteRequestUnits": units, "MaxReadRequestUnits": -1}}


@pytest.mark.parametrize(
    ("described", "units", "how"),
    [
        (PROVISIONED, 300, "provisioned for the table"),
        # The warm throughput of a provisioned table is what it could be provisioned with at once.
        ({**PROVISIONED, **warm(4000)}, 300, "provisioned for the table"),
        (ON_DEMAND, 4000, "assumed, as for a new on-demand table"),
        # Without BillingModeSummary, as emulators describe tables.
        ({}, 4000, "assumed, as for a new on-demand table"),
        ({**ON_DEMAND, **warm(12_000)}, 12_000, "warm throughput of the table"),
        ({**ON_DEMAND, **warm(12_000), **capped(500)}, 500, "on-demand maximum of the table"),
        ({**ON_DEMAND, **capped(50_000)}, 4000, "assumed, as for a new on-demand table"),
        ({**ON_DEMAND, **capped(-1)}, 4000, "assumed, as for a new on-demand table"),
    ],
)
def test_write_capacity_of_a_described_table(described, units, how):
    found = write_capacity(described)
    assert (found.units, found.how) == (units, how)


@pytest.mark.parametrize(
    ("capacity", "max_wcu", "workers"),
    [
        (4000, None, 1),
        (4001, None, 2),
        (40_000, None, 10),
        (5, None, 1),
        (0, None, 1),
        # A small budget needs few workers; one above the table's capacity changes nothing.
        (40_000, 300, 1),
        (40_000, 9000, 3),
        (4000, 9000, 1),
    ],
)
def test_workers_auto_follows_the_documented_rule(capacity, max_wcu, workers):
    assert choose_workers(capacity, max_wcu) == workers


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        ({}, 1),
        ({"mode": "insert"}, 1),
        ({"mode": "last-wins", "position_attribute": "at"}, 4),
        ({"mode": "update"}, 4),
    ],
)
def test_rows_with_requests_of_their_own_take_more_workers(options, workers):
    context = context_with(dynamodb(), import_concurrency=100, in_account=True)
    found = resolve_limits(Options.from_json(options), "books", ON_DEMAND, context)
    assert found.most_workers == workers


def context_with(clients, **settings):
    context = World(EVERY_COLUMN).context()
    context.clients = clients
    for name, value in settings.items():
        setattr(context, name, value)
    return context


def dynamodb():
    clients = Clients()
    clients.dynamodb = clients.stub("dynamodb").client
    return clients


def test_account_gives_a_run_half_of_its_unreserved_concurrency():
    clients = dynamodb()
    described = {**ON_DEMAND, **warm(40_000)}
    with clients.stub("lambda") as stub:
        limits = {"ConcurrentExecutions": 20, "UnreservedConcurrentExecutions": 10}
        stub.add_response("get_account_settings", {"AccountLimit": limits})
        context = context_with(clients, in_account=True)
        assert resolve_limits(Options(), "books", described, context).most_workers == 5
    # On a machine the account's functions do not matter, and a process takes 40,000 units.
    here = context_with(clients)
    for units, workers in ((40_000, 1), (80_000, 2)):
        described = {**ON_DEMAND, **warm(units)}
        assert resolve_limits(Options(), "books", described, here).most_workers == workers
    slower = Options(max_wcu=10.0)
    assert resolve_limits(slower, "books", described, here).most_workers == 1


@pytest.mark.parametrize(
    ("workers", "most", "notices"), [(None, 3, 0), (3, 3, 0), (2, 2, 0), (10, 3, 1)]
)
def test_reserved_concurrency_limits_workers(workers, most, notices):
    said = []
    context = context_with(dynamodb(), import_concurrency=3, notice=said.append, in_account=True)
    options = Options(workers=workers)
    described = {**ON_DEMAND, **warm(40_000)}
    assert resolve_limits(options, "books", described, context).most_workers == most
    assert len(said) == notices


def test_max_cost_needs_a_price():
    context = context_with(dynamodb())
    with pytest.raises(InvalidPayload, match=r"options.max_cost.*billed by the hour"):
        resolve_limits(Options(max_cost=1.0), "books", PROVISIONED, context)
    limits = resolve_limits(Options(max_cost=1.0, unit_price=2.0), "books", PROVISIONED, context)
    assert limits.write_price.units(1.0) == 500_000


def recovery(status):
    described = {"PointInTimeRecoveryStatus": status}
    return {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": described,
        }
    }


@pytest.mark.parametrize("by", ["payload", "stack"])
def test_table_without_recovery_is_refused_if_it_is_required(by):
    clients = Clients()
    stub = clients.stub("dynamodb")
    clients.dynamodb = stub.client
    options = Options(require_backup=by == "payload")
    context = context_with(clients, require_backup=by == "stack")
    with stub:
        for status in ("ENABLED", "DISABLED"):
            stub.add_response("describe_continuous_backups", recovery(status), {"TableName": "t"})
        resolve_limits(options, "t", ON_DEMAND, context)
        with pytest.raises(BackupRequired, match="update-continuous-backups --table-name t"):
            resolve_limits(options, "t", ON_DEMAND, context)
