"""Batches, and the limits of batches, items, keys and numbers."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tests.contract.request_helpers import delete, everything, n, of_size, put, refused, s, write

KB = 1024
MESSAGE_DUPLICATES = "Provided list of item keys contains duplicates"
MESSAGE_SCHEMA = "The provided key element does not match the schema"
MESSAGE_TOO_LARGE = "Item size has exceeded the maximum allowed size"


# Batches


def test_batch_writes_and_deletes_items(dynamodb, make_table):
    table = make_table()
    answer = write(dynamodb, table, put(pk=s("a"), x=n("1")), put(pk=s("b")))
    assert answer["UnprocessedItems"] == {}
    assert "ConsumedCapacity" not in answer
    write(dynamodb, table, delete(pk=s("b")), delete(pk=s("none")), put(pk=s("a"), y=n("2")))
    assert everything(dynamodb, table) == [{"pk": s("a"), "y": n("2")}]


def test_batch_refuses_26_requests(dynamodb, make_table):
    refused(dynamodb, make_table(), *(put(pk=s(str(i))) for i in range(26)))


def test_batch_is_refused_with_an_invalid_item(dynamodb, make_table):
    assert refused(dynamodb, make_table(), put(pk=s("a")), put(x=s("no key"))) == MESSAGE_SCHEMA


@pytest.mark.parametrize(
    "pair",
    [
        (put(pk=s("a"), x=n("1")), put(pk=s("a"), x=n("2"))),
        (put(pk=s("a")), delete(pk=s("a"))),
        (delete(pk=s("a")), delete(pk=s("a"))),
    ],
)
def test_batch_refuses_a_repeated_key(dynamodb, make_table, pair):
    table = make_table()
    assert refused(dynamodb, table, put(pk=s("b")), *pair) == MESSAGE_DUPLICATES


@pytest.mark.parametrize("text", ["1.0", "1e0", "10E-1", "0.1e1", "01", "1.", "100000e-5"])
def test_batch_takes_equal_numbers_for_one_key(dynamodb, make_table, text):
    table = make_table("N")
    assert refused(dynamodb, table, put(pk=n("1")), put(pk=n(text))) == MESSAGE_DUPLICATES


def test_batch_compares_string_keys_by_characters(dynamodb, make_table):
    table = make_table()
    texts = ["1", "1.0", "caf\u00e9", "cafe\u0301", "A", "a", " a", "a "]
    write(dynamodb, table, *(put(pk=s(text)) for text in texts))
    assert len(everything(dynamodb, table)) == len(texts)


def test_batch_refuses_more_than_16_mb(dynamodb, make_table):
    # A control character is six bytes in JSON and one in an item: 25 legal items are 17 MB.
    requests = [put(pk=s(str(i)), x=s("\x01" * 120_000)) for i in range(25)]
    with pytest.raises(ClientError) as raised:
        write(dynamodb, make_table(), *requests)
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413


# Sizes


def test_item_may_have_400_kb(dynamodb, make_table):
    table = make_table()
    write(dynamodb, table, {"PutRequest": {"Item": of_size(400 * KB)}})
    dynamodb.put_item(TableName=table, Item=of_size(400 * KB, "b"))
    assert len(everything(dynamodb, table)) == 2


def test_item_above_400_kb_is_refused(dynamodb, make_table):
    table, item = make_table(), of_size(400 * KB + 1)
    assert refused(dynamodb, table, {"PutRequest": {"Item": item}}) == MESSAGE_TOO_LARGE
    with pytest.raises(ClientError, match=MESSAGE_TOO_LARGE):
        dynamodb.put_item(TableName=table, Item=item)


@pytest.mark.parametrize(("size", "accepted"), [(2048, True), (2049, False)])
def test_partition_key_may_have_2048_bytes(dynamodb, make_table, size, accepted):
    table, request = make_table(), put(pk=s("x" * size))
    if accepted:
        write(dynamodb, table, request)
    else:
        assert "Size of hashkey" in refused(dynamodb, table, request)


@pytest.mark.parametrize(("size", "accepted"), [(1024, True), (1025, False)])
def test_sort_key_may_have_1024_bytes(dynamodb, make_table, size, accepted):
    table, request = make_table("S", "B"), put(pk=s("a"), sk={"B": b"x" * size})
    if accepted:
        write(dynamodb, table, request)
    else:
        assert "range key" in refused(dynamodb, table, request)


# Numbers

NINES = "9" * 38


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0.000", "0"),
        ("007", "7"),
        ("1.50", "1.5"),
        ("-1.0", "-1"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        ("12.34e+1", "123.4"),
        (NINES, NINES),
        ("0." + NINES, "0." + NINES),
        ("1" + "0" * 45, "1" + "0" * 45),
        ("000" + NINES + "000", NINES + "000"),
        ("1E-130", "0." + "0" * 129 + "1"),
        ("-1E-130", "-0." + "0" * 129 + "1"),
        ("1E+125", "1" + "0" * 125),
        (f"{NINES[0]}.{NINES[1:]}E+125", NINES + "0" * 88),
        (f"-{NINES[0]}.{NINES[1:]}E+125", "-" + NINES + "0" * 88),
    ],
)
def test_numbers_are_stored_in_one_spelling(dynamodb, make_table, text, kept):
    table = make_table("N")
    write(dynamodb, table, put(pk=n(text), x=n(text), y={"NS": [text]}))
    assert everything(dynamodb, table) == [{"pk": n(kept), "x": n(kept), "y": {"NS": [kept]}}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ""),
        ("abc", "cannot be converted to a numeric value: abc"),
        ("0x1F", "cannot be converted to a numeric value"),
        ("1e", "cannot be converted to a numeric value"),
        ("1.2.3", "cannot be converted to a numeric value"),
        ("1,5", "cannot be converted to a numeric value"),
        ("1_000", "cannot be converted to a numeric value"),
        ("--1", "cannot be converted to a numeric value"),
        ("NaN", "cannot be converted to a numeric value"),
        ("Infinity", "cannot be converted to a numeric value"),
        ("1 000", "cannot be converted to a numeric value"),
        ("\u0663", "cannot be converted to a numeric value"),
        ("1E+126", "Number overflow"),
        ("-1E+126", "Number overflow"),
        ("1E-131", "Number underflow"),
        (NINES + "1", "more than 38 significant digits"),
        ("0." + NINES + "1", "more than 38 significant digits"),
    ],
)
@pytest.mark.parametrize("place", ["key", "attribute", "set", "nested"])
def test_invalid_numbers_are_refused(dynamodb, make_table, text, message, place):
    table = make_table("N")
    request = {
        "key": put(pk=n(text)),
        "attribute": put(pk=n("1"), x=n(text)),
        "set": put(pk=n("1"), x={"NS": ["1", text]}),
        "nested": put(pk=n("1"), x={"L": [{"M": {"x": n(text)}}]}),
    }[place]
    assert message in refused(dynamodb, table, request)


# Other values


def test_values_are_stored_exactly(dynamodb, make_table):
    table = make_table()
    item = {
        "pk": s("a"),
        "empty": s(""),
        "text": s("né\n\x00😀\u2028"),
        "bytes": {"B": b"\x00\xff"},
        "no_bytes": {"B": b""},
        "yes": {"BOOL": True},
        "no": {"BOOL": False},
        "null": {"NULL": True},
        "list": {"L": [s("x"), n("1"), {"L": []}]},
        "map": {"M": {"é": s("x"), "b": {"M": {}}}},
        "é" * 100: s("a name of two-byte characters"),
    }
    write(dynamodb, table, {"PutRequest": {"Item": item}})
    assert dynamodb.get_item(TableName=table, Key={"pk": s("a")})["Item"] == item
    assert everything(dynamodb, table) == [item]


@pytest.mark.parametrize("kind", ["SS", "NS", "BS"])
def test_sets_are_stored(dynamodb, make_table, kind):
    table = make_table()
    members = [b"1", b"2"] if kind == "BS" else ["1", "2"]
    write(dynamodb, table, put(pk=s("a"), x={kind: members}))
    (item,) = everything(dynamodb, table)
    assert sorted(item["x"][kind]) == members
    refused(dynamodb, table, put(pk=s("a"), x={kind: []}))
    assert "duplicates" in refused(
        dynamodb, table, put(pk=s("a"), x={kind: [*members, members[0]]})
    )


def test_invalid_values_are_refused(dynamodb, make_table):
    table = make_table()
    refused(dynamodb, table, put(pk=s("a"), x={}))
    refused(dynamodb, table, put(pk=s("a"), x={"NULL": False}))
    refused(dynamodb, table, put(pk=s("a"), x={"L": [{}]}))


# Keys and indexes


@pytest.mark.parametrize("value", [{"S": ""}, {"B": b""}])
def test_empty_keys_are_refused(dynamodb, make_table, value):
    (kind,) = value
    table = make_table(kind)
    assert "empty" in refused(dynamodb, table, put(pk=value))
    table = make_table("S", kind)
    assert "empty" in refused(dynamodb, table, put(pk=s("a"), sk=value))


@pytest.mark.parametrize("kind", ["global", "local"])
def test_index_keys_must_match_their_type(dynamodb, make_table, kind):
    range_key = [{"AttributeName": "year", "KeyType": "RANGE"}]
    hash_key = "isbn" if kind == "global" else "pk"
    index = {
        "IndexName": "by-year",
        "KeySchema": [{"AttributeName": hash_key, "KeyType": "HASH"}, *range_key],
        "Projection": {"ProjectionType": "ALL"},
    }
    defined = [{"AttributeName": "year", "AttributeType": "N"}]
    if kind == "global":
        defined.append({"AttributeName": "isbn", "AttributeType": "S"})
    table = make_table(
        "S",
        "S",
        AttributeDefinitions=defined,
        **{f"{kind.capitalize()}SecondaryIndexes": [index]},
    )
    message = refused(dynamodb, table, put(pk=s("a"), sk=s("b"), year=s("1999"), isbn=s("i")))
    assert "Type mismatch for Index Key year Expected: N Actual: S IndexName: by-year" in message
    # A sparse index: an item without the index's keys is legal.
    write(dynamodb, table, put(pk=s("a"), sk=s("b")))
    write(dynamodb, table, put(pk=s("a"), sk=s("b"), year=n("1999"), isbn=s("i")))
