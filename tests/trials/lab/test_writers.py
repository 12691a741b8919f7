"""Counts of books are checked, and signatures are those of botocore."""

from __future__ import annotations

import copy
import datetime as dt
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

from bench.checksum import ItemChecksum
from lab import harness
from lab.experiments.writers import SEQUENTIAL, require_arrived
from lab.harness import CountsDiffer
from lab.published.writers.books import Book
from lab.published.writers.signature import Credentials, signed_headers

NOW = dt.datetime(2026, 11, 23, 14, 5, 6, tzinfo=dt.UTC)


def counted():
    due = ItemChecksum()
    due.add({"isbn": {"S": "1"}})
    nothing = {"items": 0, "checksum": ItemChecksum().checksum}
    tables = {"SyncBooks": {"items": 1, "checksum": due.checksum}, "AsyncBooks": nothing}
    return due, {"invalid": 0, "first_invalid": None, "requests": 1, "tables": tables}


def test_counts_that_match_pass():
    require_arrived(SEQUENTIAL, *counted())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("tables", "SyncBooks", "items"), 2, "2 of 1 arrived"),
        (("tables", "SyncBooks", "checksum"), "f" * 32, "differ from the books"),
        (("tables", "AsyncBooks", "items"), 1, "AsyncBooks: 1 of 0"),
        (("invalid",), 1, "invalid requests"),
    ],
    ids=["twice", "another item", "another table", "invalid"],
)
def test_counts_that_differ_are_refused(path, value, message):
    due, counters = counted()
    changed = copy.deepcopy(counters)
    part = changed
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    with pytest.raises(CountsDiffer, match=message):
        require_arrived(SEQUENTIAL, due, changed)


def botocore_authorization(headers, url, body):
    """Sign as botocore does at the time that the headers state."""
    auth = SigV4Auth(BotocoreCredentials("made-up", "made-up"), "dynamodb", "us-east-1")
    request = AWSRequest("POST", url, headers=headers, data=body)
    request.context["timestamp"] = headers["x-amz-date"]
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    auth._inject_signature_to_request(request, signature)
    return request.headers["Authorization"]


@pytest.mark.parametrize(
    "url",
    ["https://dynamodb.us-east-1.amazonaws.com", "http://127.0.0.1:8000"],
    ids=["AWS", "a port"],
)
def test_signature_is_botocores(url):
    body = json.dumps({"Item": Book("978-1", "Zoë", 'A "title"', "1999-12-31").item()}).encode()
    headers = signed_headers(
        Credentials("made-up", "made-up", "us-east-1"), url, "PutItem", body, NOW
    )
    given = headers.pop("authorization")
    assert given == botocore_authorization(headers, url + "/", body)


@pytest.fixture
def recorder():
    """Server that keeps the headers and body of each request, and its address."""
    requests = []

    class Recorder(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((dict(self.headers), body))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Recorder)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield requests, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_signature_is_botocores_for_what_aiohttp_sends(recorder, tmp_path):
    requests, url = recorder
    file = tmp_path / "books.csv"
    file.write_text("isbn,author,title,published_date\n978-1,Zoë,A,1999-12-31\n")
    command = harness.published("writers.asynchronous", str(file), "AsyncBooks")
    harness.run(command, harness.environment(dynamodb=url))
    ((headers, body),) = requests
    headers = {name.lower(): value for name, value in headers.items()}
    given = headers["authorization"]
    signed = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {"content-type", "host", "x-amz-date", "x-amz-target"} <= set(signed)
    sent = {name: headers[name] for name in signed}
    assert given == botocore_authorization(sent, url + "/", body)
    assert json.loads(body)["TableName"] == "AsyncBooks"
