"""Price of a comparison, by what DescribeTable says."""

from __future__ import annotations

import pytest

from ddbload.verification.verify import VerifySettings, estimate_reads

MIB = 1024 * 1024
ON_DEMAND = {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}


@pytest.mark.parametrize(
    ("settings", "units"),
    [
        (VerifySettings(), 25_600),
        (VerifySettings(consistent=False), 12_800),
        # 20 KiB an item are 5 units.
        (VerifySettings(sample=1000), 5000),
        (VerifySettings(sample=0.1), 2560),
        (VerifySettings(sample=0.1, consistent=False), 1280),
    ],
)
def test_units_follow_the_table_and_the_settings(settings, units):
    described = {**ON_DEMAND, "ItemCount": 5120, "TableSizeBytes": 100 * MIB}
    found = estimate_reads(described, settings, source_bytes=MIB)
    assert found.units == units
    assert found.dollars == pytest.approx(units * 0.125e-6)


@pytest.mark.parametrize(
    ("described", "max_rcu", "rate"),
    [
        (ON_DEMAND, None, None),
        (ON_DEMAND, "10%", 1200.0),
        ({**ON_DEMAND, "WarmThroughput": {"ReadUnitsPerSecond": 50_000}}, "10%", 5000.0),
        ({**ON_DEMAND, "OnDemandThroughput": {"MaxReadRequestUnits": 100}}, "10%", 10.0),
        ({"ProvisionedThroughput": {"ReadCapacityUnits": 80}}, None, 40.0),
        ({"ProvisionedThroughput": {"ReadCapacityUnits": 1}}, None, 1.0),
        ({"ProvisionedThroughput": {"ReadCapacityUnits": 80}}, 7.0, 7.0),
    ],
)
def test_rate_is_considerate_of_provisioned_tables(described, max_rcu, rate):
    described = {"ProvisionedThroughput": {"WriteCapacityUnits": 5}, **described}
    if "BillingModeSummary" not in described:
        described["ProvisionedThroughput"] = {
            "WriteCapacityUnits": 5,
            **described["ProvisionedThroughput"],
        }
    found = estimate_reads(described, VerifySettings(max_rcu=max_rcu), MIB)
    assert found.units_per_second == rate
