"""Rows for a queue: which are messages, how they are told apart, and why others are rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload.contracts.queue_messages import MOST_BYTES, SHARED_BYTES
from ddbload.contracts.target import MESSAGE_DEDUPLICATION, MESSAGE_GROUP, QueueTarget
from ddbload.items.item_builder import Item
from ddbload.items.message_rules import MessageRules
from ddbload.rows.reject_lines import Defect

STANDARD = QueueTarget("orders")
FIFO = QueueTarget("orders.fifo", "{customer}", "{id}")


def item(text: str = "", **made: str) -> Item:
    names = {"group": MESSAGE_GROUP, "deduplication": MESSAGE_DEDUPLICATION}
    attributes: dict[str, Any] = {"text": {"S": text}}
    attributes |= {names[name]: {"S": value} for name, value in made.items()}
    return Item(attributes, tuple(made.values()), 1, 1)


def longest(size: int) -> str:
    """Make a text whose message has so many bytes."""
    return "x" * (size - len(json.dumps({"text": ""}, separators=(",", ":"))))


def test_rows_for_a_standard_queue_never_wait_for_each_other():
    rules = MessageRules(QueueTarget("orders", group="{customer}"), MOST_BYTES)
    keys = [*rules.keys([("a",), ("a",), ()]), *rules.keys([("a",)])]
    assert len(set(keys)) == 4


def test_rows_of_a_fifo_queue_wait_for_their_group():
    rules = MessageRules(FIFO, MOST_BYTES)
    assert rules.keys([("a", "1"), ("a", "2"), ("b", "1")]) == [("a",), ("a",), ("b",)]


@pytest.mark.parametrize("most", [1024, MOST_BYTES])
def test_message_may_be_as_long_as_the_queue_allows(most):
    rules = MessageRules(STANDARD, most)
    assert rules.defect(item(longest(most))) is None
    defect = rules.defect(item(longest(most + 1)))
    assert defect == Defect(
        "message_too_long",
        f"{most + 1:,} bytes of JSON; a message of the queue has at most {most:,}",
    )


def test_bytes_of_made_attributes_and_escapes_count_as_they_are_sent():
    rules = MessageRules(FIFO, 1024)
    assert rules.defect(item(longest(1024), group="g" * 128, deduplication="d" * 128)) is None
    # SQS does not take this character, which has three bytes; its escape has six.
    assert rules.defect(item("\uffff" + longest(1024 - 6), group="g", deduplication="d")) is None
    assert rules.defect(item("\uffff" + longest(1024 - 5), group="g", deduplication="d"))


def test_long_messages_go_alone():
    rules = MessageRules(STANDARD, MOST_BYTES)
    assert not rules.goes_alone(item(longest(SHARED_BYTES)))
    assert rules.goes_alone(item(longest(SHARED_BYTES + 1)))


def test_long_rows_are_looked_at_one_by_one():
    rules = MessageRules(STANDARD, MOST_BYTES)
    short, long = "x" * (SHARED_BYTES // 2), "x" * (SHARED_BYTES // 2 + 1)
    assert rules.suspects([(), ()], [short, long]) == [1]
    assert MessageRules(STANDARD, 1024).suspects([(), ()], ["x" * 512, "x" * 513]) == [1]


@pytest.mark.parametrize("name", ["group", "deduplication"])
@pytest.mark.parametrize("text", ["two words", "M\u00fcller", "x" * 129, "tab\there"])
def test_id_that_sqs_refuses_is_a_reject_that_does_not_quote_it(name, text):
    rules = MessageRules(FIFO, MOST_BYTES)
    made = {"group": "g", "deduplication": "d", name: text}
    assert rules.suspects([tuple(made.values())], [""]) == [0]
    defect = rules.defect(item(**made))
    assert defect is not None
    assert defect.cause == "bad_message_id"
    assert text not in defect.detail
    assert defect.column == {"group": MESSAGE_GROUP}.get(name, MESSAGE_DEDUPLICATION)


def test_id_that_sqs_takes_is_no_suspect():
    rules = MessageRules(FIFO, MOST_BYTES)
    assert rules.suspects([("c-1", "a/b?c=d~!")], [""]) == []


@pytest.mark.parametrize(
    ("cause", "due"),
    [("empty_key", "empty_key"), ("key_too_long", "bad_message_id"), ("bad_type", "bad_type")],
)
def test_defect_of_an_id_is_explained_in_the_queues_words(cause, due):
    found = MessageRules(FIFO, MOST_BYTES).explain(Defect(cause, "words", MESSAGE_GROUP))
    assert (found.cause, found.column) == (due, MESSAGE_GROUP)
    if cause != due or cause == "empty_key":
        assert "group" in found.detail


def test_long_id_of_few_characters_is_explained_by_its_bytes():
    defect = Defect("key_too_long", "129 bytes; a partition key has at most 128", MESSAGE_GROUP)
    found = MessageRules(FIFO, MOST_BYTES).explain(defect)
    due = "the message's group has 129 bytes, and SQS takes 128 characters of ASCII"
    assert found.detail == due
