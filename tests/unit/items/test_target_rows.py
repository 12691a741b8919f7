"""Rows for a bucket: the key is made and checked, and not among what is sent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Cursor, KeyAttribute, RunRecord, Table
from ddbload.contracts.target import OBJECT_KEY
from ddbload.items.encode.request_json import item_of_request
from ddbload.items.item_builder import Item
from ddbload.items.plain_json import plain_object
from ddbload.items.row_encoder import row_encoder_for
from ddbload.items.target_rows import TargetRows, made_texts, target_rows
from ddbload.rows.block_splitter import Block
from ddbload.rows.reject_lines import Defect

PREFIX = "p" * 20 + "/"


def record(columns: tuple[str, ...] = (), **more: Any) -> RunRecord:
    source: dict[str, Any] = {"path": "/x", "format": "csv" if columns else "json"}
    payload = Payload.from_json(
        {
            "source": source,
            "target": {"bucket": "shop", "prefix": PREFIX, "key": "{id}.json"},
            **more,
        }
    )
    key = KeyAttribute(OBJECT_KEY, "S", 1024 - len(PREFIX))
    kinds = ("S",) * (len(columns) + 1 - len(payload.mapping.drop))
    return RunRecord(
        *("r", payload, {"size": 9}, 9, Cursor(0, 1), columns, kinds if columns else ()),
        *(Table("s3://shop/p/", "id", (key,), kind="bucket"), 10, 1, 1.0, "asked"),
    )


def rows(text: str, columns: tuple[str, ...] = (), **more: Any) -> list[Any]:
    """Return the key and body of each row, or the cause of its reject."""
    run = record(columns, **more)
    encoder = target_rows(run, row_encoder_for(run))
    assert isinstance(encoder, TargetRows)
    data = text.encode()
    block = Block(data, Cursor(0, 1), Cursor(len(data), 1 + text.count("\n")))
    positions, encoded = encoder.read(block)
    found: list[Any] = []
    for row in range(len(encoded)):
        built = encoder.build(positions.data(row), positions.byte(row))
        if row in encoded.odd:
            if isinstance(built, Defect):
                found.append((built.cause, built.column))
                continue
            item = built.attributes
        else:
            item = item_of_request(encoded.puts[row])
            # One by one, rows become what they become together.
            assert isinstance(built, Item)
            assert built.attributes == item
            assert built.key == encoded.keys[row]
        (key,) = made_texts(item, [OBJECT_KEY])
        found.append((key, plain_object(item)))
    return found


def test_key_is_made_of_columns_and_not_sent():
    found = rows("1,Zoë,x\n2,,y\n", ("id", "name", "city"), mapping={"drop": ["city"]})
    assert found == [("1.json", '{"id":"1","name":"Zoë"}'), ("2.json", '{"id":"2"}')]


BAD_KEYS = [
    ("..", "bad_object_key"),
    ("a/../b", "bad_object_key"),
    ("a..b", "bad_object_key"),
    ("./a", "bad_object_key"),
    ("a/./b", "bad_object_key"),
    ("", "empty_key"),
    ("x" * (1024 - len(PREFIX) - 4), "key_too_long"),
    ("é" * ((1024 - len(PREFIX) - 5) // 2 + 1), "key_too_long"),
]
GOOD_KEYS = [".hidden", "a.b", "a/.b", "/", "a//b", " ", "é\u20ac%?#+&", "x" * 998]


@pytest.mark.parametrize(("text", "cause"), BAD_KEYS, ids=range(len(BAD_KEYS)))
def test_bad_keys_are_rejects(text, cause):
    around = f"1,a\n{text},b\n2,c\n"
    good = [("1.json", '{"id":"1","n":"a"}'), ("2.json", '{"id":"2","n":"c"}')]
    assert rows(around, ("id", "n")) == [good[0], (cause, OBJECT_KEY), good[1]]
    lines = "".join(json.dumps({"id": each}) + "\n" for each in ("1", text, "2"))
    assert rows(lines)[1] == (cause, OBJECT_KEY)


@pytest.mark.parametrize("text", GOOD_KEYS, ids=range(len(GOOD_KEYS)))
def test_other_keys_are_taken(text):
    body = json.dumps({"id": text}, ensure_ascii=False, separators=(",", ":"))
    assert rows(f"{text}\n", ("id",)) == [(f"{text}.json", body)]


def test_a_member_with_the_name_of_the_key_is_not_lost():
    text = '{"id":"1","--object-key" : "mine"}\n{"id":"2","n":"--object-key"}\n'
    escaped = '{"id":"3","\\u002D-object-ke\\u0079":"mine"}\n'
    assert rows(text + escaped) == [
        ("duplicate_name", OBJECT_KEY),
        ("2.json", '{"id":"2","n":"--object-key"}'),
        ("duplicate_name", OBJECT_KEY),
    ]


@pytest.mark.parametrize("kind", ["bucket", "queue"])
def test_deletions_of_an_export_are_rejects(kind):
    more = {"target": {"queue": "orders"}} if kind == "queue" else {}
    run = record(source={"path": "/x", "format": "dynamodb-export"}, **more)
    if kind == "queue":
        run = replace(run, table=Table("sqs:orders", "id", (), kind=kind))
    keys = '{"Metadata":{},"Keys":{"id":{"S":"1"}}'
    data = f'{keys}}}\n{keys},"NewImage":{{"id":{{"S":"1"}}}}}}\n'.encode()
    encoder = target_rows(run, row_encoder_for(run))
    positions, encoded = encoder.read(Block(data, Cursor(0, 1), Cursor(len(data), 3)))
    assert encoded.odd == {0}
    built = encoder.build(positions.data(0), 0)
    assert isinstance(built, Defect)
    assert built.cause == "deletion"


def test_rows_are_larger_than_items_of_dynamodb():
    long = "x" * 500_000
    ((key, body),) = rows(f"1,{long}\n", ("id", "long"))
    assert (key, len(body)) == ("1.json", 500_000 + len('{"id":"1","long":""}'))
