"""The fake bucket counts requests in flight, and refuses those that are too old, as S3 does."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.bucket import Bucket, bucket_keys, object_body
from bench.http_server import Request
from bench.listing import bucket_server, control

KEY = "/bench/in/part-000000.csv"


def head(age=0.0):
    at = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age)
    return {"Authorization": "AWS4-HMAC-SHA256 x", "X-Amz-Date": f"{at:%Y%m%dT%H%M%SZ}"}


def get(endpoint, age=0.0):
    request = urllib.request.Request(endpoint + KEY, headers=head(age))
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


@pytest.fixture(scope="module")
def endpoint():
    with bucket_server() as address:
        yield address


@pytest.mark.parametrize(("age", "status"), [(0, 200), (850, 200), (950, 403), (-950, 403)])
def test_requests_of_another_time_are_refused(endpoint, age, status):
    control(endpoint, "/reset", {"objects": 1, "bytes": 5, "max_skew_seconds": 900})
    found, body = get(endpoint, age)
    assert found == status
    assert control(endpoint, "/counters")["skewed"] == (status == 403)
    if status == 403:
        signed = re.search("<RequestTime>(.*)</RequestTime>", body)[1]
        now = re.search("<ServerTime>(.*)</ServerTime>", body)[1]
        difference = dt.datetime.fromisoformat(now) - dt.datetime.fromisoformat(signed)
        assert difference.total_seconds() == pytest.approx(age, abs=3)
        assert "<Code>RequestTimeTooSkewed</Code>" in body
        assert "<MaxAllowedSkewMilliseconds>900000</MaxAllowedSkewMilliseconds>" in body


def test_requests_without_a_date_are_refused_where_dates_are_checked():
    bucket = Bucket()
    request = Request("GET", KEY, b"\r\nauthorization: AWS4-HMAC-SHA256 x\r\n", b"")
    bucket.reset({"objects": 1, "max_skew_seconds": 900})
    assert bucket.serve(request).status == 403
    bucket.reset({"objects": 1})
    assert bucket.serve(request).status == 200


def test_requests_wait_for_their_turn_and_are_in_flight_meanwhile(endpoint):
    control(endpoint, "/reset", {"objects": 1, "latency": 0.1, "most_at_once": 2})
    before = control(endpoint, "/counters")
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        statuses = [status for status, _ in pool.map(lambda _: get(endpoint), range(8))]
    assert statuses == [200] * 8
    # Two at a time take four turns, however busy this machine is.
    assert time.monotonic() - began >= 0.39
    after = control(endpoint, "/counters")
    assert after["objects"] == 8
    assert 2 < after["most_in_flight"] <= 8
    assert after["cpu_seconds"] >= before["cpu_seconds"] >= 0


def test_a_request_that_waits_for_its_turn_grows_old(endpoint):
    settings = {"objects": 1, "latency": 1.0, "most_at_once": 1, "max_skew_seconds": 2.0}
    control(endpoint, "/reset", settings)
    with ThreadPoolExecutor(5) as pool:
        statuses = sorted(status for status, _ in pool.map(lambda _: get(endpoint), range(5)))
    # The first one is served at once; the last one's turn comes 4 seconds after it was signed.
    assert (statuses[0], statuses[-1]) == (200, 403)
    assert control(endpoint, "/counters")["skewed"] == statuses.count(403)


def test_a_server_whose_clock_is_ahead_refuses_new_requests(endpoint):
    settings = {"objects": 1, "max_skew_seconds": 900, "clock_ahead_seconds": 3600}
    control(endpoint, "/reset", settings)
    assert get(endpoint)[0] == 403
    assert get(endpoint, age=-3600)[0] == 200


def test_distinct_objects_have_bodies_and_etags_of_their_own():
    bucket = Bucket()
    bucket.reset({"objects": 3, "bytes": 200, "distinct": True})
    signed = b"\r\nauthorization: AWS4-HMAC-SHA256 x\r\n"
    listing = bucket.serve(Request("GET", "/bench?list-type=2", signed, b"")).body.decode()
    keys = bucket_keys("numbered", 3)
    bodies = [bucket.serve(Request("GET", f"/bench/{key}", signed, b"")) for key in keys]
    assert [json.loads(each.body)["object"] for each in bodies] == keys
    assert [len(each.body) for each in bodies] == [200] * 3
    assert bodies[0].body == object_body(keys[0], 200)
    listed = re.findall("<ETag>&quot;(.*?)&quot;</ETag><Size>200</Size>", listing)
    assert [f'"{etag}"' for etag in listed] == [
        re.search("ETag: (.*)\r", each.headers)[1] for each in bodies
    ]
    assert len(set(listed)) == 3
