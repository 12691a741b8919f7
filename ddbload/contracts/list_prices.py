"""AWS's list prices in us-east-1 in US dollars, without free tiers and discounts."""

LIST_PRICE_REGION = "us-east-1"
LIST_PRICE_DATE = "2026-11"
"""Month in which all of these prices were last checked."""

# DynamoDB. Names with IA are for the table class Standard-IA.
WRITE_UNIT_PRICE, WRITE_UNIT_PRICE_IA = 0.625, 0.78
"""Dollars for a million on-demand write units. In a global table each region bills them."""
READ_UNIT_PRICE, READ_UNIT_PRICE_IA = 0.125, 0.155
"""Dollars for a million on-demand read units."""
CAPACITY_HOUR, CAPACITY_HOUR_IA = 0.00065, 0.00081
"""Price of a provisioned write capacity unit per hour."""
WARM_UNIT = 0.00065
"""Price of a write unit a second of warm throughput above what the table has, once and per region.
"""
STORED_GB_MONTH, STORED_GB_MONTH_IA = 0.25, 0.10
RECOVERY_GB_MONTH = 0.20
"""Price of point-in-time recovery per GB and month."""
IMPORT_GB = 0.15
"""Price of ImportTable per GB of uncompressed source: "Data import from Amazon S3" in "Amazon
DynamoDB pricing for on-demand capacity". It consumes no write units, and indexes are included
("DynamoDB data import from Amazon S3: how it works")."""

# Other services.
GB_SECOND = 0.0000133334
"""Price of Lambda on arm64 per GB-second."""
INVOCATION = 0.20 / 1e6
TRANSITION = 0.025 / 1e3
S3_WRITE = 0.005 / 1e3
"""Price of an S3 PUT or LIST request."""
S3_READ = 0.0004 / 1e3
METRIC_MONTH = 0.30
LOG_GB = 0.50
