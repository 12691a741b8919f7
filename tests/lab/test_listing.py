"""Each way lists the bucket's keys, with as many requests as it should have."""

from __future__ import annotations

import threading

import boto3
import pytest

from bench.bucket import BUCKET, bucket_keys
from bench.clients import MADE_UP_SETTINGS
from bench.listing import bucket_server, control
from lab.experiments import listing
from lab.findings import CountsDiffer
from lab.published.list_objects import Stopwatch, last_key, list_early

KEYS = 2_500


def test_ways_list_all_keys_with_their_requests(setup_of):
    found = listing.EXPERIMENT.run(setup_of(KEYS, latency=0.02))
    times, pages = found.tables
    requests = {row[0]: (int(row[-2]), int(row[-1])) for row in times.rows}
    in_parallel = [requests.pop("ddbload, in parallel"), requests.pop("ddbload ls")]
    assert requests == dict.fromkeys(
        (
            *("documented loop", "isoparse", "next page early", "list_objects_v2"),
            "ddbload, page by page",
        ),
        (3, 1),
    )
    for count, at_once in in_parallel:
        assert count > 3
        assert 1 < at_once <= 16
    assert len(pages.rows) == 6
    # A span for each request and each page parsed.
    lanes = {lane.label: [span.what for span in lane.spans] for lane in found.charts[-1].lanes}
    for way in requests:
        assert sorted(lanes[way]) == ["parsing"] * 3 + ["request"] * 3
    parallel = lanes["ddbload, in parallel"]
    assert parallel.count("request") == in_parallel[0][0]


class Patience(Stopwatch):
    """Stopwatch that lets no page but the last be parsed before the next is requested."""

    def __init__(self):
        super().__init__()
        self.requested = threading.Semaphore(0)
        self.early = []

    def attach(self, client):
        super().attach(client)
        client.meta.events.register("before-send.s3", self._count)
        client.meta.events.register_last("before-parse.s3", self._wait)

    def _count(self, **_):
        self.requested.release()

    def _wait(self, response_dict, **_):
        if not self.early:
            self.requested.acquire()  # the first page's own
        if b"<IsTruncated>true" in response_dict["body"]:
            self.early.append(self.requested.acquire(timeout=20))


def test_next_page_is_requested_before_a_page_is_parsed(monkeypatch):
    patience = Patience()
    for name, value in MADE_UP_SETTINGS.items():
        monkeypatch.setenv(name, value)
    with bucket_server() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        control(endpoint, "/reset", {"objects": KEYS, "shape": "plain"})
        keys = list_early(boto3.Session(), BUCKET, patience)
    assert keys == bucket_keys("plain", KEYS)
    assert patience.early == [True, True]


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"objects": 9}, "keys of ddbload, in parallel: 9 of 10 arrived"),
        ({"shape": "hashed"}, "ddbload, in parallel: other keys than the bucket's"),
    ],
    ids=["lost", "other"],
)
def test_other_keys_are_refused(setup_of, monkeypatch, lie, message):
    def lying(endpoint, path, settings=None):
        return control(endpoint, path, settings and {**settings, **lie})

    monkeypatch.setattr(listing, "WAYS", (listing.PARALLEL,))
    monkeypatch.setattr(listing, "control", lying)
    with pytest.raises(CountsDiffer, match=message):
        listing.EXPERIMENT.run(setup_of(10))


def test_last_key_is_decoded():
    body = b"<Contents><Key>a</Key></Contents><Contents><Key>b+%2B%C3%A9&amp;</Key></Contents>"
    assert last_key(body) == "b +é&"
