"""Attribute values as DynamoDB takes them: checked, and measured.

A value is that of DynamoDB's JSON, `{"N": "1"}`, binary as base64. The rules are those of
"Supported data types and naming rules in Amazon DynamoDB" and "DynamoDB item sizes and formats".
"""

from __future__ import annotations

MAX_DEPTH = 32
"""Levels of a value: the lists and maps that something stands in, and that itself."""
"""Lists and maps that a value may stand in, one within the other."""
MAX_NAME_BYTES = 64 * 1024 - 1
"""UTF-8 of an attribute's name."""
MAX_ITEM_BYTES = 400 * 1024
"""DynamoDB's limit: UTF-8 bytes of attribute names and values."""
MAX_DIGITS = 38
MIN_EXPONENT, MAX_EXPONENT = -130, 125
MAX_BATCH_ROWS = 25
MAX_BATCH_BYTES = 15 * 1024 * 1024
"""DynamoDB's limit is 16 MB a request; the rest is for the envelope."""
