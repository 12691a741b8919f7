"""Each request has one outcome with any network fault, and all sockets are closed."""

from __future__ import annotations

import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ddbload.aws.http_client.event_loop import HttpLoop, RequestLost, Timeouts
from ddbload.aws.http_client.http1 import Response
from tests.faults.catalogue import FAULTS
from tests.faults.certificates import Certificate, make
from tests.faults.http_loop_helpers import Clock, looping, outcome, outcomes, request, said
from tests.faults.request_helpers import DEFINITION, batch, fail, written
from tests.faults.scripted import OK, Scripted, answers, reads_and_is_silent, reset, silent
from tests.faults.server import FaultServer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Certificate:
    return make(Path(tmp_path_factory.mktemp("certificate")), "127.0.0.1", "localhost")


@pytest.fixture(params=["plain", "TLS"])
def wire(request, certificate) -> tuple[Any, Any]:
    """TLS contexts of server and client; None for plain connections."""
    return (
        (None, None) if request.param == "plain" else (certificate.server(), certificate.client())
    )


@pytest.fixture
def fault_server(wire) -> Iterator[FaultServer]:
    with FaultServer(drip_seconds=0.2, stall_seconds=0.2, tls=wire[0]) as running:
        running.dynamodb.create_table(**DEFINITION)
        yield running


def body_of(*keys: str) -> bytes:
    return json.dumps(batch(*keys)).encode()


# Every fault of the catalogue

NO_ANSWER = {"reset_before", "reset_landed", "closed", "closed_landed", "stall", "stall_landed"}
"""Script that closes before the first byte of a response."""
HALF_AN_ANSWER = {"reset_mid_response", "truncated"}
NOT_WRITTEN = {"reset_before", "closed", "stall"}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_fault_of_a_new_connection_gives_one_outcome(fault_server, wire, fault):
    fail(fault_server, fault)
    with looping(fault_server.port, tls=wire[1]) as loop:
        found = outcome(loop, body_of("a"))
        if fault in NO_ANSWER:
            assert isinstance(found, RequestLost)
            assert found.reason in ("ConnectionClosed", "ConnectionReset")
            assert written(fault_server) == ([] if fault in NOT_WRITTEN else ["a"])
        elif fault in HALF_AN_ANSWER:
            assert isinstance(found, RequestLost)
            assert found.reason in ("BadResponse", "ConnectionReset", "ConnectionClosed")
        else:
            assert isinstance(found, Response)
        assert loop.free() == 4
        assert said(loop, body_of("b")) == 200


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_fault_of_a_reused_connection_gives_one_outcome(fault_server, wire, fault):
    fail(fault_server, None, fault)
    with looping(fault_server.port, tls=wire[1]) as loop:
        assert said(loop, body_of("a")) == 200
        assert isinstance(outcome(loop, body_of("b")), RequestLost) == (fault in HALF_AN_ANSWER)
        times = 3 if fault in NO_ANSWER else 2
        assert [each.fault for each in fault_server.requests] == [None, fault, None][:times]
        assert loop.free() == 4


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_faults_give_one_outcome_each(fault_server, wire, seed):
    fault_server.fail_at_random(seed, FAULTS, 0.5)
    sent, got = 0, 0
    with looping(fault_server.port, 6, tls=wire[1], timeouts=Timeouts(first_byte=5)) as loop:
        waiting: set[int] = set()
        while got < 150:
            while loop.free() and sent < 150:
                loop.send(sent, request(body_of(str(sent))))
                waiting.add(sent)
                sent += 1
            for token, _ in loop.wait(0.2):
                waiting.remove(token)
                got += 1
        assert waiting == set()
        assert loop.free() == 6
        assert len({each.connection for each in fault_server.requests}) > 6
    assert fault_server.dynamodb.overlaps == []


# Connections


def test_connections_are_reused(fault_server, wire):
    with looping(fault_server.port, 3, tls=wire[1]) as loop:
        for _ in range(5):
            for token in range(3):
                loop.send(token, request(body_of(str(token))))
            assert loop.free() == 0
            with pytest.raises(ValueError, match="free"):
                loop.send(3, b"")
            found = outcomes(loop, 3).values()
            assert {each.status for each in found if isinstance(each, Response)} == {200}
    assert fault_server.connections == 3


def until_none_is_idle(loop: HttpLoop) -> None:
    give_up = time.monotonic() + 10
    while loop._idle:
        assert time.monotonic() < give_up
        assert loop.wait(0.05) == []


def test_connection_closed_while_idle_is_dropped(wire):
    server = Scripted(answers(1), tls=wire[0])
    with server, looping(server.port, tls=wire[1]) as loop:
        assert said(loop) == 200
        until_none_is_idle(loop)
        assert said(loop) == 200


def test_unexpected_data_end_a_connection(wire):
    def script(server: Scripted, connection: Any) -> None:
        server.read(connection)
        connection.sendall(OK)
        connection.sendall(OK.replace(b"200", b"299"))
        reads_and_is_silent(server, connection)

    server = Scripted(script, answers(), tls=wire[0])
    with server, looping(server.port, tls=wire[1]) as loop:
        assert said(loop) == 200
        until_none_is_idle(loop)
        assert said(loop) == 200
    assert server.accepted == 2


def until_idle_has(loop: HttpLoop, event: int) -> None:
    """Wait until the idle connection has received data, or broken."""
    ((_, connection),) = loop._idle
    poll = select.poll()
    poll.register(connection.fd, event)
    assert poll.poll(10_000)


def test_repeated_response_is_not_taken_for_the_next(wire):
    """Data received before a request is sent cannot be its response."""
    go_on = threading.Event()

    def script(server: Scripted, connection: Any) -> None:
        answers(1)(server, connection)
        go_on.wait()
        connection.sendall(OK.replace(b"200", b"299"))
        reads_and_is_silent(server, connection)

    server = Scripted(script, answers(), tls=wire[0])
    with server, looping(server.port, tls=wire[1]) as loop:
        assert said(loop) == 200
        # The TLS session ticket has arrived.
        loop.wait(0.05)
        go_on.set()
        until_idle_has(loop, select.POLLIN)
        assert said(loop) == 200
    assert server.accepted == 2


def numbered(*names: str) -> Any:
    """Script that answers with the given request ids."""

    def run(server: Scripted, connection: Any) -> None:
        for name in names:
            server.read(connection)
            connection.sendall(
                OK.replace(b"200 OK", f"200 OK\r\nx-amzn-RequestId: {name}".encode())
            )
        server.ended.wait()

    return run


def test_late_repeated_response_is_not_taken_for_the_next(wire):
    server = Scripted(numbered("a", "b", "b"), numbered("c"), tls=wire[0])
    with server, looping(server.port, tls=wire[1]) as loop:
        assert [said(loop) for _ in range(4)] == [200, 200, "BadResponse", 200]
    assert server.accepted == 2


# Reused connections that have ended


@pytest.mark.parametrize("ends", ["closed", "reset"])
def test_request_is_sent_again_when_a_reused_connection_broke(wire, ends):
    def script(server: Scripted, connection: Any) -> None:
        answers(1)(server, connection)
        server.read(connection)
        if ends == "reset":
            reset(connection)

    server = Scripted(script, answers(), tls=wire[0])
    with server, looping(server.port, tls=wire[1]) as loop:
        assert said(loop, b"first") == 200
        assert said(loop, b"second") == 200
    assert [each[-6:] for each in server.requests[1:]] == [b"second", b"second"]


def test_response_says_whether_its_request_was_resent():
    def script(server: Scripted, connection: Any) -> None:
        answers(1)(server, connection)
        server.read(connection)

    with Scripted(script, answers()) as server, looping(server.port) as loop:
        answered = []
        for name in ("first", "second", "third"):
            loop.send(name, request())
            ((_, response),) = loop.wait(10)
            answered.append(response.resent)
    assert answered == [False, True, False]


def test_connection_end_noticed_while_sending_is_resent(wire):
    go_on = threading.Event()

    def script(server: Scripted, connection: Any) -> None:
        answers(1)(server, connection)
        go_on.wait()
        reset(connection)

    server = Scripted(script, answers(), tls=wire[0])
    with server, looping(server.port, tls=wire[1]) as loop:
        assert said(loop) == 200
        go_on.set()
        until_idle_has(loop, select.POLLERR)
        assert said(loop) == 200
    assert len(server.requests) == 2


def test_request_is_resent_only_once(wire):
    def ends(server: Scripted, connection: Any) -> None:
        server.read(connection)

    def answers_one(server: Scripted, connection: Any) -> None:
        answers(1)(server, connection)
        ends(server, connection)

    server = Scripted(answers_one, ends, tls=wire[0])
    with server, looping(server.port, tls=wire[1]) as loop:
        assert said(loop) == 200
        assert said(loop) in ("ConnectionClosed", "ConnectionReset")
    assert len(server.requests) == 3


def test_request_is_not_resent_after_a_time_out(wire):
    def script(server: Scripted, connection: Any) -> None:
        answers(1)(server, connection)
        reads_and_is_silent(server, connection)

    server = Scripted(script, tls=wire[0])
    timeouts = Timeouts(first_byte=0.1)
    with server, looping(server.port, tls=wire[1], timeouts=timeouts) as loop:
        assert said(loop) == 200
        assert said(loop) == "ReadTimeout"
    assert len(server.requests) == 2


# While a request is being sent


def test_response_may_come_before_the_request_is_sent(wire):
    def script(server: Scripted, connection: Any) -> None:
        connection.recv(100)
        connection.sendall(OK.replace(b"200 OK", b"413 Too Large"))
        server.ended.wait()

    server = Scripted(script, answers(), tls=wire[0])
    with server, looping(server.port, tls=wire[1]) as loop:
        assert said(loop, b"x" * 16_000_000) == 413
        assert said(loop) == 200
    assert server.accepted == 2


def test_server_that_reads_nothing_times_out(wire):
    server = Scripted(silent, tls=wire[0])
    timeouts = Timeouts(stall=0.2)
    with server, looping(server.port, tls=wire[1], timeouts=timeouts) as loop:
        assert said(loop, b"x" * 32_000_000) == "SendTimeout"


def test_request_has_an_end_time_when_its_server_reads_a_little_now_and_then(wire):
    def script(server: Scripted, connection: Any) -> None:
        while not server.ended.wait(0.01) and connection.recv(1):
            pass

    clock = Clock()
    server = Scripted(script, tls=wire[0])
    with server, looping(server.port, tls=wire[1], clock=clock) as loop:
        loop.send("only", request(b"x" * 32_000_000))
        (exchange,) = loop._under_way
        while not exchange.left:
            assert loop.wait(0.01) == []
        # Bytes move, and the request ends all the same.
        exchange.left = 2**40
        clock.ahead = exchange.sent_by - time.monotonic() + 1
        assert [found.reason for found in outcomes(loop, 1).values()] == ["SendTimeout"]


def test_slow_reading_server_is_no_stall(wire):
    def script(server: Scripted, connection: Any) -> None:
        server.read(connection, pause=0.01 if wire[0] is None else 0.001)
        connection.sendall(OK)

    clock = Clock()
    server = Scripted(script, tls=wire[0])
    with server, looping(server.port, tls=wire[1], clock=clock) as loop:
        loop.send("only", request(b"x" * 32_000_000))
        (exchange,) = loop._under_way
        found: list[Any] = []
        left: list[int] = []
        while not found:
            found = loop.wait(0.01)
            connection = exchange.connection
            if connection is not None and connection.left not in (0, *left[-1:]):
                left.append(connection.left)
                clock.ahead += 9
        assert len(left) > 2
        assert isinstance(found[0][1], Response)


# Connecting


def refused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def at_ports(*ports: int) -> Any:
    return lambda *_, **__: [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports
    ]


@pytest.fixture
def mute_port() -> Iterator[int]:
    """Port with a full queue, which does not answer attempts to connect."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_next_address_is_tried_after_a_failure(wire):
    server = Scripted(answers(1), tls=wire[0])
    refused = refused_port()
    with server:
        look_up = at_ports(refused, refused, server.port)
        with looping(1, tls=wire[1], host="localhost", look_up=look_up) as loop:
            assert said(loop) == 200
            # The address that worked comes first from now on.
            assert loop._dns.known()[0].sockaddr[1] == server.port
            for _ in range(3):
                assert said(loop) == 200


def test_failure_of_all_addresses_is_reported(mute_port):
    look_up = at_ports(mute_port, mute_port)
    timeouts = Timeouts(connect=0.2)
    with looping(1, host="localhost", look_up=look_up, timeouts=timeouts) as loop:
        assert said(loop) == "ConnectTimeout"


def test_unfinished_handshake_times_out(certificate):
    server = Scripted(silent)
    timeouts = Timeouts(connect=0.2)
    with server, looping(server.port, tls=certificate.client(), timeouts=timeouts) as loop:
        assert said(loop) == "ConnectTimeout"


def test_slow_look_up_does_not_block():
    go_on = threading.Event()
    server = Scripted(answers())

    def look_up(*args: Any, **more: Any) -> Any:
        go_on.wait()
        return at_ports(server.port)(*args, **more)

    clock = Clock()
    with server, looping(1, host="slow.invalid", clock=clock, look_up=look_up) as loop:
        for token in range(3):
            loop.send(token, request())
        assert loop.wait(0.05) == []
        clock.ahead += 5
        assert set(outcomes(loop, 3).values()) == {RequestLost("NameNotResolved")}
        loop.send("later", request())
        go_on.set()
        # A lost request is not sent later, and has no second outcome.
        assert isinstance(outcomes(loop, 1)["later"], Response)
        assert loop.wait(0.05) == []
    assert len(server.requests) == 1


# Certificates


def test_untrusted_certificate_is_refused(certificate, tmp_path):
    other = make(tmp_path, "127.0.0.1")
    server = Scripted(answers(), tls=certificate.server())
    with server, looping(server.port, tls=other.client()) as loop:
        assert said(loop) == "CertificateNotTrusted"
        assert loop.free() == 4
    assert server.requests == []


@pytest.mark.parametrize(
    ("hosts", "days"), [(["other.example"], 1), (["127.0.0.2"], 1), (["127.0.0.1"], -1)]
)
def test_certificate_of_another_host_or_time_is_refused(tmp_path, hosts, days):
    wrong = make(tmp_path, *hosts, days=days)
    server = Scripted(answers(), tls=wrong.server())
    with server, looping(server.port, tls=wrong.client()) as loop:
        assert said(loop) == "CertificateNotTrusted"
    assert server.requests == []


def test_host_name_of_the_certificate_is_checked(certificate):
    server = Scripted(answers(), tls=certificate.server())
    with server:
        look_up = at_ports(server.port)
        for host, expected in (("localhost", 200), ("other.invalid", "CertificateNotTrusted")):
            with looping(1, tls=certificate.client(), host=host, look_up=look_up) as loop:
                assert said(loop) == expected


LENGTHLESS = b"HTTP/1.1 200 OK\r\n\r\n{}"


@pytest.mark.parametrize(
    "cut",
    [
        OK[:-1],
        LENGTHLESS,
        LENGTHLESS[:-1],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ],
)
def test_connection_end_without_tls_close_is_a_loss(certificate, cut):
    """Some builds of OpenSSL report such an end as a regular one."""

    def script(server: Scripted, connection: Any) -> None:
        server.read(connection)
        connection.sendall(cut)
        # Below TLS.
        socket.socket.shutdown(connection, socket.SHUT_WR)
        server.ended.wait()

    ignoring = certificate.client()
    ignoring.options |= getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    server = Scripted(script, tls=certificate.server())
    with server:
        for context in (certificate.client(), ignoring):
            with looping(server.port, tls=context) as loop:
                assert said(loop) in ("ConnectionClosed", "BadResponse")


# Time


def test_received_response_is_not_late(wire):
    """The process may have been suspended or busy."""
    clock = Clock()
    server = Scripted(answers(), tls=wire[0])
    with server, looping(server.port, tls=wire[1], clock=clock) as loop:
        assert said(loop) == 200
        loop.send("only", request())
        connection = next(iter(loop._under_way)).connection
        assert connection is not None
        # Until the response has arrived.
        loop._selector.select(10)
        clock.ahead += 1000
        ((_, found),) = loop.wait(0)
        assert isinstance(found, Response)


def test_close_with_requests_in_flight_leaves_no_sockets(wire):
    server = Scripted(silent, tls=wire[0])
    with server, looping(server.port, tls=wire[1]) as loop:
        for token in range(4):
            loop.send(token, request(b"x" * 4_000_000))
        loop.wait(0.05)
