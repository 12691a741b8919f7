"""The emulator refuses requests of web pages in the developer's browser on every port."""

import http.client
import json
import re
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import urlencode, urlsplit

import pytest

from localaws import LocalAws
from localaws.functions.runtime_api import Invocation, RuntimeApi
from tests.e2e.processes import children
from tests.fakes.dynamodb_tables import keyed
from tests.trials.localaws.conftest import Deployed

HERE = "127.0.0.1"
PAGE = "http://evil.example"
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/{service}/aws4_request,"
    " SignedHeaders=host;x-amz-date, Signature=0",
    "X-Amz-Date": "20260101T000000Z",
}
# Headers that browsers add to a request. A page can leave out Referer only.
BROWSERS = [
    pytest.param({"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}, id="another site"),
    pytest.param({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, id="a sandboxed frame"),
    pytest.param({"Origin": PAGE}, id="no fetch metadata"),
    pytest.param({"Sec-Fetch-Site": "cross-site"}, id="a navigation or an image"),
    pytest.param({"Sec-Fetch-Site": "same-site"}, id="another port of this machine"),
    pytest.param({"Sec-Fetch-Site": "same-origin"}, id="a page of its own"),
    pytest.param({"Referer": f"{PAGE}/"}, id="referrer only"),
]
# Host names whose owners can let them resolve to 127.0.0.1.
FOREIGN_HOSTS = [
    "evil.example:{port}",
    "127.0.0.1.evil.example:{port}",
    "evil.example",
    "localhost.evil",
]
# Host names that resemble the server's.
SIMILAR_HOSTS = ["127.0.0.1", "127.0.0.1:1", "localhost", "localhost:1", "notlocalhost:{port}", ""]


def ask(port, method="POST", path="/", body=b"", headers=None, host=None):
    """Send exactly these headers; return status, headers and body of the response."""
    connection = http.client.HTTPConnection(HERE, port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", f"{HERE}:{port}" if host is None else host)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        if method not in ("GET", "OPTIONS"):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def assert_refused(answer):
    status, headers, body = answer
    assert status == 403, (status, body)
    assert not [name for name in headers if name.startswith("access-control-")]
    assert b"localaws" in body


def port_of(endpoint):
    return urlsplit(endpoint).port


def signed(service, **headers):
    return {name: value.format(service=service) for name, value in SIGNED.items()} | headers


@pytest.fixture
def forged(tmp_path):
    """Form that creates a stack whose creation runs a function, and the file that it writes."""
    mark = tmp_path / "mark"
    trust = {"Version": "2012-10-17", "Statement": []}
    code = f"def handler(event, context): open({str(mark)!r}, 'w').close(); raise SystemExit"
    body = {
        "Resources": {
            "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust}},
            "Code": {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Code": {"ZipFile": code},
                    "Handler": "index.handler",
                    "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                    "Runtime": "python3.13",
                },
            },
            "Run": {
                "Type": "Custom::Run",
                "Properties": {"ServiceToken": {"Fn::GetAtt": ["Code", "Arn"]}},
            },
        }
    }
    fields = {"Action": "CreateStack", "StackName": "forged", "TemplateBody": json.dumps(body)}
    return urlencode(fields | {"Version": "2010-05-15"}).encode(), mark


def assert_no_stack(app, mark):
    assert not mark.exists()
    stacks = app.client("cloudformation").describe_stacks()["Stacks"]
    assert "forged" not in {stack["StackName"] for stack in stacks}


@pytest.mark.parametrize("browser", [pytest.param({}, id="nothing"), *BROWSERS])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_forged_form_creates_no_stack(app, forged, browser, kind):
    """A page may send three content types without a preflight request: the form's two and text.

    moto finds the service by the path. Without Origin only the missing signature stops the request.
    """
    form, mark = forged
    headers = {"Content-Type": kind, **browser}
    for path in ("/cloudformation_us-east-1/cfnresponse", "/"):
        assert_refused(ask(port_of(app.aws.endpoint), "POST", path, form, headers))
        assert_refused(
            ask(port_of(app.aws.endpoint), "GET", f"{path}?{form.decode()}", b"", browser)
        )
    assert_no_stack(app, mark)


@pytest.mark.parametrize("host", [*FOREIGN_HOSTS, *SIMILAR_HOSTS])
def test_request_is_refused_with_a_foreign_host(app, forged, host):
    """With DNS rebinding only the Host tells a page's request from the developer's."""
    form, mark = forged
    port = port_of(app.aws.endpoint)
    headers = signed("cloudformation", **{"Content-Type": "application/x-www-form-urlencoded"})
    assert_refused(ask(port, "POST", "/", form, headers, host.format(port=port)))
    assert_no_stack(app, mark)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}"])
def test_request_is_accepted_with_a_local_host(app, host):
    port = port_of(app.aws.endpoint)
    form = b"Action=GetCallerIdentity&Version=2011-06-15"
    headers = signed("sts", **{"Content-Type": "application/x-www-form-urlencoded"})
    assert ask(port, "POST", "/", form, headers, host.format(port=port))[0] == 200


def test_moto_controls_are_refused(app):
    """`/moto-api/` can reset every service and shows all data."""
    port = port_of(app.aws.endpoint)
    for method, path in (("POST", "reset"), ("GET", "data.json"), ("GET", "")):
        for headers in ({}, {"Origin": PAGE}, {"Origin": f"http://{HERE}:{port}"}):
            assert_refused(ask(port, method, f"/moto-api/{path}", b"", headers))
    assert app.outputs_of("app")


@pytest.fixture(scope="module")
def listening():
    """Ports of all listeners while functions run and calls are observed, checked against /proc."""
    with LocalAws("--enforce-iam") as aws:
        app = Deployed(aws)
        # The function's process stays alive, and so does its Runtime API.
        _, found = app.invoke("Answer", {"wish": "environment"})
        known = {
            "services": aws.endpoint,
            "dynalite": aws.dynamodb_endpoint,
            "watched DynamoDB": found["AWS_ENDPOINT_URL_DYNAMODB"],
            "Runtime API": f"http://{found['AWS_LAMBDA_RUNTIME_API']}",
        }
        ports = {name: port_of(endpoint) for name, endpoint in known.items()}
        pids = [aws.pid, *children(aws.pid)]
        if Path("/proc/net/tcp").exists():
            assert ports_of(pids) == set(ports.values())
        yield ports


def ports_of(pids):
    """Return the TCP ports at which these processes listen."""
    sockets = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            if match := re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink())):
                sockets.add(match[1])
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and inode in sockets:
            found.add(int(local.rpartition(":")[2], 16))
    return found


PORTS = pytest.mark.parametrize("name", ["services", "dynalite", "watched DynamoDB", "Runtime API"])


@PORTS
@pytest.mark.parametrize("browser", BROWSERS)
def test_every_port_refuses_browser_headers(listening, name, browser):
    port = listening[name]
    for method in ("GET", "POST", "PUT", "DELETE"):
        headers = {**signed("dynamodb"), "Content-Type": "text/plain", **browser}
        assert_refused(ask(port, method, "/", b"{}", headers))


@PORTS
@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_every_port_refuses_a_foreign_host(listening, name, host):
    port = listening[name]
    for method in ("GET", "POST"):
        answer = ask(port, method, "/", b"{}", signed("dynamodb"), host.format(port=port))
        assert_refused(answer)


def create_table(port, headers):
    """Send CreateTable; return whether the table exists afterwards, and the response."""
    table = keyed("forged", id="S")
    sent = signed("dynamodb", **{"Content-Type": "application/x-amz-json-1.0"})
    target = {"X-Amz-Target": "DynamoDB_20120810.CreateTable"}
    answer = ask(port, "POST", "/", json.dumps(table).encode(), {**sent, **target, **headers})
    target = {"X-Amz-Target": "DynamoDB_20120810.ListTables"}
    _, _, tables = ask(port, "POST", "/", b"{}", {**sent, **target})
    return "forged" in json.loads(tables)["TableNames"], answer


@pytest.mark.parametrize("browser", BROWSERS)
def test_dynamodb_creates_no_table_for_a_web_page(listening, browser):
    for name in ("dynalite", "watched DynamoDB"):
        made, answer = create_table(listening[name], browser)
        assert_refused(answer)
        assert not made


@pytest.fixture
def runtime():
    messages = SimpleQueue()
    api = RuntimeApi(messages)
    yield api, messages
    api.close()


@pytest.mark.parametrize("browser", [pytest.param({}, id="nothing"), *BROWSERS])
def test_runtime_api_gives_events_only_to_a_lambda_runtime(runtime, browser):
    """A page that guesses the port can neither fetch an event nor answer one."""
    api, messages = runtime
    port = int(api.address.rpartition(":")[2])
    api.send_event(Invocation("id", b'{"secret": 1}', 0.0, "arn"))
    path = "/2018-06-01/runtime/invocation"
    assert_refused(ask(port, "GET", f"{path}/next", b"", browser))
    if browser:
        assert_refused(ask(port, "POST", f"{path}/id/response", b"forged", browser))
    assert messages.empty()
    own = {"User-Agent": "aws-lambda-python/3.13.0-4.0.0"}
    status, _, body = ask(port, "GET", f"{path}/next", b"", own)
    assert (status, body) == (200, b'{"secret": 1}')
