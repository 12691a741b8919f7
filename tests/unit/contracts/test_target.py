"""Targets that are not tables: what a payload and a command line may say of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload.contracts.load_identity import asked_hash
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Cursor, KeyAttribute, RunRecord, Table
from ddbload.contracts.target import OBJECT_KEY, BucketTarget, QueueTarget, target_fields
from ddbload.errors import InvalidPayload

TO_BUCKET = {"bucket": "shop", "prefix": "books/", "key": "{isbn}.json"}


def payload(target: dict[str, Any], **more: Any) -> Payload:
    return Payload.from_json({"source": {"path": "/in/books.csv"}, "target": target, **more})


@pytest.mark.parametrize(
    ("target", "name", "made"),
    [
        (TO_BUCKET, "s3://shop/books/", {"--object-key": "{isbn}.json"}),
        ({**TO_BUCKET, "prefix": ""}, "s3://shop/", {"--object-key": "{isbn}.json"}),
        ({"queue": "orders"}, "sqs:orders", {}),
        (
            {"queue": "orders.fifo", "group": "{customer}", "deduplication": "{id}"},
            "sqs:orders.fifo",
            {"--message-group": "{customer}", "--message-deduplication": "{id}"},
        ),
    ],
)
def test_payload_keeps_its_target(target, name, made):
    read = payload(target, mapping={"set": {"kind": "book"}})
    assert read.table == name
    assert dict(read.mapping.set) == {"kind": "book", **made}
    sent = json.loads(json.dumps(read.to_json()))
    assert sent["target"] == target
    assert sent["mapping"]["set"] == {"kind": "book"}
    assert Payload.from_json(sent) == read


def test_payload_of_a_table_is_written_as_before():
    assert payload({"table": "books"}).to_json()["target"] == {"table": "books"}
    assert payload({"table": "books"}).target is None


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ({**TO_BUCKET, "bucket": "no/bucket"}, "not the name of a bucket"),
        ({**TO_BUCKET, "key": "all.json"}, "names no column"),
        ({**TO_BUCKET, "key": "{isbn"}, "the template of '--object-key' has a single '{'"),
        ({**TO_BUCKET, "prefix": "a/../b/"}, "'target.prefix' has '..' as a path segment"),
        ({**TO_BUCKET, "prefix": "p" * 1024}, "1,024"),
        ({**TO_BUCKET, "folder": "x"}, "unknown field 'target.folder'"),
        ({"bucket": "shop", "prefix": ""}, "'target.key' is missing"),
        ({"bucket": "shop", "queue": "orders"}, "target"),
        ({"queue": "https://sqs.example/1/orders"}, "without its URL or ARN"),
        ({"queue": "orders.fifo"}, "'target.group' is missing"),
        ({"queue": "orders", "deduplication": "{id}"}, "is for FIFO queues"),
    ],
)
def test_targets_that_are_refused(target, told):
    with pytest.raises(InvalidPayload) as refused:
        payload(target)
    assert told in refused.value.message


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "update"},
        {"mode": "delete"},
        {"mode": "plan"},
        {"mode": "last-wins", "position_attribute": "p"},
        {"max_wcu": 5},
        {"max_wcu": "50%"},
        {"max_cost": 1},
        {"unit_price": 1},
        {"require_backup": True},
        {"condition": "attribute_exists(a)"},
    ],
)
@pytest.mark.parametrize("target", [TO_BUCKET, {"queue": "orders"}], ids=["bucket", "queue"])
def test_options_of_tables_are_refused(target, options):
    with pytest.raises(InvalidPayload, match=r"for tables, and the target is (s3://|sqs:)"):
        payload(target, options=options)


def test_a_queue_takes_no_inserts():
    assert payload(TO_BUCKET, options={"mode": "insert"}).options.mode == "insert"
    with pytest.raises(InvalidPayload, match="a queue takes mode put"):
        payload({"queue": "orders"}, options={"mode": "insert"})


@pytest.mark.parametrize(
    "mapping", [{"set": {OBJECT_KEY: "x"}}, {"rename": {"a": OBJECT_KEY}}], ids=["set", "rename"]
)
def test_mapping_cannot_make_what_the_target_needs(mapping):
    with pytest.raises(InvalidPayload, match="makes an attribute '--object-key'"):
        payload(TO_BUCKET, mapping=mapping)
    assert payload({"table": "books"}, mapping=mapping).mapping


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (("books",), {"table": "books"}),
        (("s3://shop/books/", "{isbn}.json"), TO_BUCKET),
        (("s3://shop", "{id}"), {"bucket": "shop", "prefix": "", "key": "{id}"}),
        (("sqs:orders",), {"queue": "orders"}),
        (
            ("sqs:a.fifo", None, "{g}", "{d}"),
            {"queue": "a.fifo", "group": "{g}", "deduplication": "{d}"},
        ),
    ],
)
def test_addresses_of_targets(given, fields):
    assert target_fields(*given) == fields


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("s3://shop/books/",), "--object-key is missing"),
        (("s3://shop/books", "{id}"), "end the target's prefix with a slash, s3://shop/books/"),
        (("s3://shop/a/{c}/{d}.json",), "write s3://shop/a/ --object-key '{c}/{d}.json'"),
        (("s3://shop/{c}/", "{d}"), "write s3://shop/ --object-key '{c}/{d}'"),
        (("books", "{id}"), "--object-key is for a target s3://bucket/prefix/"),
        (("s3://shop/", "{id}", "{g}"), "--message-group is for a target sqs:queue"),
        (("https://sqs.eu-west-1.amazonaws.com/123456789012/a.fifo",), "the queue sqs:a.fifo, "),
        (("arn:aws:sqs:eu-west-1:123456789012:a_b",), "the queue sqs:a_b, without its URL or ARN"),
        (("sqs:http://127.0.0.1:1/123456789012/orders",), "name the queue sqs:orders, "),
        (("sqs://orders",), "name the queue sqs:orders, "),
    ],
)
def test_addresses_that_are_refused(given, told):
    with pytest.raises(InvalidPayload) as refused:
        target_fields(*given)
    assert told in refused.value.message


def record(target: dict[str, Any], table: Table, **more: Any) -> RunRecord:
    asked = payload(target, **more)
    made = RunRecord(
        *("r1", asked, {"path": "/in/books.csv", "size": 9}, 9, Cursor(0, 1)),
        *(("id",), ("S",), table, 100, 1, 1.5, asked_hash(asked, None)),
    )
    return RunRecord.from_json(json.loads(json.dumps(made.to_json())))


def stand_in(target: BucketTarget | QueueTarget) -> Table:
    key = KeyAttribute(OBJECT_KEY, "S", 1000)
    return Table(target.name, target.name, (key,), kind=target.KIND)


def test_record_keeps_the_kind_of_its_target_and_hashes_its_templates():
    one, other = (BucketTarget("shop", "", key) for key in ("{id}", "{id}.json"))
    first, second = (record(each.to_json(), stand_in(each)) for each in (one, other))
    assert (first.table.kind, first.table.is_table) == ("bucket", False)
    assert first.configuration != second.configuration
    assert first.table.max_item_bytes > 400 * 1024


def test_record_of_a_table_says_nothing_of_other_targets():
    table = Table("books", "id", (KeyAttribute("id", "S", 2048),))
    made = record({"table": "books"}, table)
    assert "kind" not in made.to_json()["table"]
    assert made.table == table
    assert made.table.max_item_bytes == 400 * 1024


def test_inserts_into_a_bucket_keep_no_attempts():
    target = BucketTarget("shop", "", "{id}")
    made = record(target.to_json(), stand_in(target), options={"mode": "insert"})
    assert not made.keeps_attempts
