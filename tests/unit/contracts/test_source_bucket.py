"""Source buckets in settings and in a function's environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.upload_rule import SourceBucket
from ddbload.errors import InvalidPayload


@given(st.text(max_size=20), st.booleans(), st.booleans())
def test_text_of_a_bucket_is_read_back(prefix, owned, pays):
    each = SourceBucket("my-bucket", prefix, "123456789012" if owned else None, pays)
    text = each.to_text()
    assert "," not in text
    assert SourceBucket.from_text(text) == each


def test_prefix_covers_keys_and_narrower_listings():
    below = SourceBucket("b", "in/")
    assert below.covers("b", "in/f.csv")
    assert below.covers("b", "in/")
    assert not below.covers("b", "in")
    assert not below.covers("b", "inner/f.csv")
    assert not below.covers("c", "in/f.csv")
    assert SourceBucket("b").covers("b", "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "'source_bucket.bucket' is missing"),
        ({"bucket": "b", "owner": "12345"}, "12 digits"),
        ({"bucket": "b", "owner": 123456789012}, "not empty"),
        ({"bucket": "b", "prefix": "in/*"}, "plain text"),
        ({"bucket": "b", "prefix": "in/?"}, "plain text"),
        ({"bucket": "b", "requester_pays": "yes"}, "true or false"),
        ({"bucket": "b", "name": "x"}, "unknown field 'source_bucket.name'"),
    ],
)
def test_wrong_fields_are_named(fields, message):
    with pytest.raises(InvalidPayload, match=message):
        SourceBucket.from_json(fields)
