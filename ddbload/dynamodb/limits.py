"""Limits of DynamoDB, from "Service, account, and table quotas" and "DynamoDB item sizes"."""

from __future__ import annotations

MAX_DEPTH = 32
"""Maximum nesting depth, the innermost value included."""
MAX_COLUMNS = 100_000
"""Columns of a file: a limit of ddbload. An item of 400 KB holds hardly as many attributes, with
names of three bytes and values of one."""
MAX_NAME_BYTES = 64 * 1024 - 1
"""Largest attribute name, in UTF-8."""
MAX_ITEM_BYTES = 400 * 1024
"""Largest item: UTF-8 bytes of attribute names, and sizes of values."""
MAX_KEY_BYTES = {"HASH": 2048, "RANGE": 1024}
"""Largest partition key and largest sort key, by KeyType."""
MAX_DIGITS = 38
"""Significant digits of a number."""
MIN_EXPONENT, MAX_EXPONENT = -130, 125
"""Range of a number's decimal exponent."""
WRITE_UNIT_BYTES = 1024
"""Bytes that one write unit covers."""
PARTITION_WRITE_UNITS = 1000
"""Write units a second of one partition ("Best practices for partition keys")."""
NEW_TABLE_RATE = 4000
"""Write units a second that a new on-demand table accepts."""
MAX_BATCH_ROWS = 25
"""Most items of a BatchWriteItem request."""
MAX_BATCH_BYTES = 15 * 1024 * 1024
"""Largest sum of items in a request. DynamoDB allows 16 MB, its envelope included."""
