"""The fake SQS counts what arrives, and fails as it is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from bench.listing import bucket_server, control
from bench.message_checksum import MessageChecksum
from bench.message_queue import SimulatedQueues


@pytest.fixture(scope="module")
def endpoint():
    with bucket_server("bench.message_queue") as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def clients(endpoint):
    return [
        boto3.client(
            "sqs",
            endpoint_url=endpoint,
            region_name=region,
            aws_access_key_id="made-up",
            aws_secret_access_key="made-up",
            config=Config(retries={"total_max_attempts": 1}, proxies={}, max_pool_connections=20),
        )
        for region in ("us-east-1", "eu-west-1")
    ]


@pytest.fixture
def send(endpoint, clients):
    """Function that sends bodies in batches of ten, and returns the answers and errors."""

    def send(*bodies: str, queue: str = "bench", workers: int = 1, **more: str) -> list[Any]:
        def one(start: int) -> Any:
            entries = [
                {"Id": str(n), "MessageBody": bodies[n], **more}
                for n in range(start, min(start + 10, len(bodies)))
            ]
            try:
                return clients[0].send_message_batch(
                    QueueUrl=f"{endpoint}/123456789012/{queue}", Entries=entries
                )
            except (ClientError, BotoCoreError) as error:
                return error

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, range(0, len(bodies), 10)))

    return send


def expected(*bodies: str, group: str | None = None) -> dict[str, str]:
    checksum = MessageChecksum()
    for body in bodies:
        checksum.add(body.encode(), group)
    return checksum.counters()


def test_queue_counts_messages_in_any_order(endpoint, send):
    control(endpoint, "/reset", {})
    bodies = [f"row {number}" for number in range(25)]
    send(*reversed(bodies))
    found = control(endpoint, "/counters")
    assert expected(*bodies).items() <= found.items()
    assert (found["messages"], found["sends"], found["most_entries"]) == (25, 3, 10)
    assert (found["duplicates"], found["invalid"], found["most_in_flight"]) == (0, 0, 1)
    assert found["most_bytes"] == max(sum(map(len, bodies[n : n + 10])) for n in range(16))
    send(bodies[0])
    assert control(endpoint, "/counters")["duplicates"] == 1
    assert found["cpu_seconds"] > 0


def test_queue_tells_a_groups_order(endpoint, send):
    orders = []
    for bodies in (["a", "b", "c"], ["a", "c", "b"]):
        control(endpoint, "/reset", {})
        send(*bodies, MessageGroupId="g")
        orders.append(control(endpoint, "/counters")["order"])
    assert orders == [
        expected("a", "b", "c", group="g")["order"],
        expected("a", "c", "b", group="g")["order"],
    ]
    assert orders[0] != orders[1]
    assert [each["body"] for each in control(endpoint, "/messages")] == ["a", "c", "b"]


def test_queue_counts_requests_in_flight(endpoint, send):
    control(endpoint, "/reset", {"latency": 0.2})
    send(*map(str, range(80)), workers=8)
    # Fewer only if this process could not send eight requests within the latency.
    assert 1 < control(endpoint, "/counters")["most_in_flight"] <= 8


def test_queue_fails_entries_by_share(endpoint, send):
    control(endpoint, "/reset", {"faults": {"failed": 0.3, "refused": 0.2, "seed": 4}})
    answers = send(*map(str, range(200)))
    failed = [each for answer in answers for each in answer.get("Failed", ())]
    sent = [each for answer in answers for each in answer.get("Successful", ())]
    found = control(endpoint, "/counters")
    by_sender = sum(each["SenderFault"] for each in failed)
    assert (found["failed"], found["refused"]) == (len(failed) - by_sender, by_sender)
    assert found["messages"] == len(sent) == 200 - len(failed)
    assert 30 < found["failed"] < 90
    assert 10 < found["refused"] < 60


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("throttled", 400, "RequestThrottled"),
        ("errors", 500, "InternalFailure"),
        ("unavailable", 503, "ServiceUnavailable"),
    ],
)
def test_queue_refuses_requests_by_share(endpoint, send, fault, status, code):
    control(endpoint, "/reset", {"faults": {fault: 0.5}})
    refused = [each for each in send(*map(str, range(300))) if isinstance(each, ClientError)]
    found = control(endpoint, "/counters")
    assert (found[fault], found["messages"]) == (len(refused), 300 - 10 * len(refused))
    assert 0 < len(refused) < 30
    answer = refused[0].response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == status
    assert answer["Error"]["Code"] == code


def test_queue_loses_answers_of_messages_that_it_took(endpoint, send):
    control(endpoint, "/reset", {"faults": {"lost": 0.5}})
    lost = [each for each in send(*map(str, range(200))) if isinstance(each, BotoCoreError)]
    found = control(endpoint, "/counters")
    assert (found["messages"], found["lost"]) == (200, len(lost))
    assert 0 < len(lost) < 20


def test_queue_of_another_region_is_missing(endpoint, clients):
    control(endpoint, "/reset", {"region": "eu-west-1"})
    assert clients[1].get_queue_url(QueueName="bench")
    with pytest.raises(ClientError, match="NonExistentQueue"):
        clients[0].get_queue_url(QueueName="bench")


def test_queue_refuses_operations_without_permission(endpoint, clients, send):
    control(endpoint, "/reset", {"denied": ["SendMessage"]})
    assert clients[0].get_queue_url(QueueName="bench")
    (answer,) = send("a")
    assert answer.response["Error"]["Code"] == "AccessDeniedException"


def test_queue_refuses_characters_and_lengths_entry_by_entry(endpoint, send):
    """ "If a message contains characters outside the allowed set, Amazon SQS rejects the message
    and returns an InvalidMessageContents error." moto takes them."""
    control(endpoint, "/reset", {"queues": {"bench": {"MaximumMessageSize": "1024"}}})
    (answer,) = send("good", "\x08", "\ufffe", "x" * 1025)
    assert [(each["Id"], each["Code"], each["SenderFault"]) for each in answer["Failed"]] == [
        ("1", "InvalidMessageContents", True),
        ("2", "InvalidMessageContents", True),
        ("3", "InvalidParameterValue", True),
    ]
    assert [each["Id"] for each in answer["Successful"]] == ["0"]


def test_queue_forgets_deduplication_ids_after_their_time(endpoint, send):
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    for seconds, delivered in ((300, 1), (0, 2)):
        control(endpoint, "/reset", {"queues": {"a.fifo": fifo}, "deduplication_seconds": seconds})
        answers = [send("a", queue="a.fifo", MessageGroupId="g")[0] for _ in range(2)]
        found = control(endpoint, "/counters")
        assert (found["messages"], found["deduplicated"]) == (delivered, 2 - delivered)
        first, second = ([e["SequenceNumber"] for e in a["Successful"]] for a in answers)
        assert first < second
        ids = {each["MessageId"] for answer in answers for each in answer["Successful"]}
        assert len(ids) == delivered


def test_queue_fails_the_same_entries_for_the_same_seed():
    def failures(seed: int) -> list[bool]:
        queues = SimulatedQueues()
        queues.reset({"faults": {"failed": 0.5, "seed": seed}})
        return [queues._happens("failed") for _ in range(50)]

    assert failures(1) == failures(1) != failures(2)


def test_queue_refuses_unknown_faults():
    with pytest.raises(ValueError, match="explode"):
        SimulatedQueues().reset({"faults": {"explode": 1}})
