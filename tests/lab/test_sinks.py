"""The sinks experiment sends every message once in all ways, and refuses whatever differs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.bucket import Bucket
from bench.message_queue import SimulatedQueues
from lab.experiments import sinks
from lab.experiments.sinks import S3, SQS, THREADS, WAYS, check, make_messages, send, serve
from lab.findings import CountsDiffer

COUNT = 20
SEQUENTIAL, IN_THREADS, DDBLOAD = WAYS


@pytest.fixture(scope="module", params=[S3(), SQS()], ids=lambda sink: sink.name)
def served(request):
    """Sink, its address and its clients' environment."""
    with serve(request.param) as (endpoint, environment):
        yield request.param, endpoint, environment


def test_one_request_at_a_time_is_in_flight_without_threads(served, setup_of):
    found = send(setup_of(COUNT), SEQUENTIAL, *served)
    assert (found.requests, found.most_in_flight) == (COUNT, 1)


def test_as_many_requests_are_in_flight_as_there_are_threads(served, setup_of):
    # Long enough for 16 threads to send a request each, before the first is answered.
    found = send(setup_of(COUNT, latency=1.0), IN_THREADS, *served)
    assert (found.requests, found.most_in_flight) == (COUNT, THREADS)


def test_ddbload_sends_batches_to_a_queue_and_objects_to_a_bucket(served, setup_of):
    found = send(setup_of(COUNT, latency=0.5), DDBLOAD, *served)
    if served[0].name == "S3":
        # The first object is sent again, to see that the endpoint keeps what is there.
        assert found.requests == COUNT + 1
        assert 1 < found.most_in_flight <= THREADS
    else:
        assert (found.requests, found.most_in_flight) == (2, 2)


def test_run_is_refused_when_the_server_lost_a_message(monkeypatch, setup_of):
    counters = sinks.read_counters

    def lose_one(endpoint):
        found = counters(endpoint)
        return {**found, "stored": max(0, found["stored"] - 1)}

    monkeypatch.setattr(sinks, "read_counters", lose_one)
    with pytest.raises(CountsDiffer, match="S3, boto3, one after the other: 4 of 5 arrived"):
        sinks.EXPERIMENT.run(setup_of(5))


@pytest.mark.parametrize(
    ("sink", "server"), [(S3(), Bucket()), (SQS(), SimulatedQueues())], ids=["S3", "SQS"]
)
def test_messages_that_arrived_twice_or_changed_are_refused(sink, server):
    messages = make_messages(3, 1)
    good = {**server.counters(), sink.arrived: 3, "checksum": sink.checksum(messages)}
    check("a way", sink, messages, good)
    twice = {"S3": "overwritten", "SQS": "duplicates"}[sink.name]
    with pytest.raises(CountsDiffer, match="1 arrived more than once"):
        check("a way", sink, messages, {**good, twice: 1})
    messages[1] = replace(messages[1], text=messages[1].text.replace("-", "/"))
    with pytest.raises(CountsDiffer, match="not with the keys and bodies"):
        check("a way", sink, messages, good)


def test_messages_are_compact_json_of_the_seed():
    messages = make_messages(50, 7)
    assert messages == make_messages(50, 7) != make_messages(50, 8)
    assert len({each.key for each in messages}) == 50
    for each in messages:
        order = json.loads(each.text)
        assert each.key == f"messages/{order['id']}.json"
        assert "\n" not in each.text
        assert json.dumps(order, ensure_ascii=False, separators=(",", ":")) == each.text
