from __future__ import annotations

import contextlib
import socket
from socket import socket as imported_earlier

import pytest

from tests.unit.conftest import SocketsAreOffError


@pytest.mark.parametrize(
    "open_one",
    [
        pytest.param(socket.socket, id="socket"),
        pytest.param(imported_earlier, id="imported earlier"),
        pytest.param(lambda: socket.create_server(("127.0.0.1", 0)), id="server"),
        pytest.param(lambda: socket.create_connection(("127.0.0.1", 9)), id="connection"),
        pytest.param(lambda: socket.getaddrinfo("localhost", 80), id="name look-up"),
    ],
)
def test_a_socket_is_an_error_that_says_where_to_go(open_one):
    with pytest.raises(SocketsAreOffError, match="belongs in another folder"):
        open_one()


def test_code_that_catches_every_exception_cannot_hide_it():
    with pytest.raises(SocketsAreOffError), contextlib.suppress(Exception):
        socket.socket()


@pytest.fixture(scope="module")
def opened_outside():
    """Set up before the function's own fixtures, and so with sockets on."""
    with socket.socket() as opened:
        yield opened


def test_sockets_are_on_again_outside_of_a_test(opened_outside):
    assert opened_outside.fileno() >= 0
