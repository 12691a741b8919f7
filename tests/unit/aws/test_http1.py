"""A response parses the same from any pieces, and incomplete ones are refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.aws.http_client import http1
from ddbload.aws.http_client.http1 import BadResponse, Response, ResponseReader

OK = b"HTTP/1.1 200 OK\r\n"


def read(*pieces: bytes) -> Response | None:
    """Parse pieces into one response; raises BadResponse for further bytes."""
    reader = ResponseReader()
    for place, piece in enumerate(pieces):
        response = reader.feed(piece)
        if response is not None:
            assert not reader.begun
            assert place == len(pieces) - 1
            return response
        assert reader.begun
    return None


def whole(data: bytes) -> Response:
    """Parse a response, with the same result as a whole and byte by byte."""
    responses = [
        read(*pieces) for pieces in ([data], [data[at : at + 1] for at in range(len(data))])
    ]
    assert responses[0] is not None
    assert responses[0] == responses[1]
    return responses[0]


def cut(*pieces: bytes) -> None:
    """Feed pieces, then the end of the connection."""
    reader = ResponseReader()
    for piece in pieces:
        assert reader.feed(piece) is None
    reader.eof()


def bad(data: bytes) -> None:
    """Expect BadResponse, as a whole and byte by byte."""
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        with pytest.raises(BadResponse) as raised:
            cut(*pieces)
        assert "secret" not in str(raised.value)


# Whole responses


def test_reader_refuses_an_early_end():
    ResponseReader().eof()
    assert not ResponseReader().begun


@pytest.mark.parametrize("status", [b"200 OK", b"206 Partial Content", b"400 No", b"503 Wait"])
@pytest.mark.parametrize("version", [b"HTTP/1.1 ", b"HTTP/1.0 "])
@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n", b"Server: x\r\n"])
def test_reader_refuses_a_response_without_length(version, status, more):
    """A connection cut by the network looks like one closed by the server."""
    head = version + status + b"\r\n" + more + b"\r\n"
    for data in (head, head + b"{}"):
        reader = ResponseReader()
        with pytest.raises(BadResponse, match="does not say how long it is"):
            reader.feed(data)


def test_reader_parses_one_response_after_the_other():
    reader = ResponseReader()
    for body in (b"a", b"", b"bcd"):
        for coding in (b"Content-Length: %d\r\n\r\n%s", b"Transfer-Encoding: chunked\r\n\r\n"):
            if b"%d" in coding:
                data = OK + coding % (len(body), body)
            else:
                chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
                data = OK + coding + chunk + b"0\r\n\r\n"
            assert reader.feed(data[:30]) is None
            response = reader.feed(data[30:])
            assert response is not None
            assert response.body == body


@pytest.mark.parametrize(
    "data",
    [
        OK + b"Content-Length: 2\r\n\r\nab",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    ],
)
@pytest.mark.parametrize("cut", [0, 10])
def test_reader_ends_keep_alive_after_unexpected_bytes(data, cut):
    reader = ResponseReader()
    if cut:
        reader.feed(data[:cut])
    response = reader.feed(data[cut:] + b"H")
    assert response is not None
    assert (response.body, response.keep_alive) == (b"ab", False)


_NAMES = st.sampled_from(["Server", "Date", "X-Amzn-RequestId", "x-amz-crc32", "Content-Type"])
_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
_BODIES = st.binary(max_size=60) | st.sampled_from([b"\r\n", b"\r\n\r\n", b"0\r\n\r\n", OK])


@st.composite
def responses(draw) -> bytes:
    """Write a response."""
    body = draw(_BODIES)
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    status = draw(st.sampled_from([b"200 OK", b"400 Bad Request", b"503 ", b"500"]))
    head = interim + b"HTTP/1.1 " + status + b"\r\n"
    for name, value in draw(st.lists(st.tuples(_NAMES, _VALUES), max_size=4)):
        head += f"{name}: {value}\r\n".encode()
    if draw(st.booleans()):
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    sizes = draw(st.lists(st.integers(1, 9), max_size=20))
    rest, chunks = body, b""
    for size in [*sizes, len(body)]:
        if rest:
            chunk, rest = rest[:size], rest[size:]
            chunks += b"%X;e\r\n%s\r\n" % (len(chunk), chunk)
    end = draw(st.sampled_from([b"0\r\n\r\n", b"0\r\nTrailer: x\r\n\r\n"]))
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + end


@given(responses(), st.lists(st.integers(0, 400), max_size=12))
def test_reader_parses_the_same_response_from_any_pieces(data, cuts):
    expected = read(data)
    assert expected is not None
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    assert read(*pieces) == expected


# What is none


@pytest.mark.parametrize(
    "data",
    [
        b"secret",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.2 200 OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 \r\n\r\n",
        b"HTTP/1.1 20\r\n\r\n",
        b"HTTP/1.1 20x OK\r\n\r\n",
        b"HTTP/1.1 2000\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 600 OK\r\n\r\n",
        "HTTP/1.1 ²00 OK\r\n\r\n".encode("latin-1"),
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"\r\n" + OK + b"Content-Length: 0\r\n\r\n",
        OK + b"secret\r\n\r\n",
        OK + b": secret\r\n\r\n",
        OK + b"Content-Length : 0\r\n\r\n",
        OK + b"A: b\r\n secret\r\nContent-Length: 0\r\n\r\n",
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        OK + b"Content-Length: 2, 2\r\n\r\nab",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: +1\r\n\r\na",
        OK + b"Content-Length: 0x1\r\n\r\na",
        OK + b"Content-Length: \r\n\r\n",
        OK + b"Content-Length: \xb2\r\n\r\nab",
        OK + b"Content-Length: 33554433\r\n\r\n",
        OK + b"Content-Length: 9999999999999999999\r\n\r\n",
        OK + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nsecret\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\n\r\na\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\naXX0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: x\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2000001\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n000000001\r\na\r\n0\r\n\r\n",
        OK + b"Content-Length: 5\r\n\r\nabcd",
        OK + b"Content-Length: 0\r\n",
        OK[:-4],
    ],
)
def test_reader_refuses_malformed_responses(data):
    bad(data)


def test_reader_limits_head_and_body(monkeypatch):
    # Other tests may have read the same lengths under the real limits.
    http1._measure.cache_clear()
    monkeypatch.setattr(http1, "MAX_BODY_BYTES", 100)
    monkeypatch.setattr(http1, "MAX_HEAD_BYTES", 100)
    monkeypatch.setattr(http1, "_MAX_CHUNK_LINE_BYTES", 50)
    chunked = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    head = OK + b"Content-Length: 0\r\nX: "
    fits = head + b"x" * (100 - len(head)) + b"\r\n\r\n"
    assert whole(fits).status == 200
    bad(fits.replace(b"xx", b"xxx", 1))
    bad(OK + b"X: " + b"x" * 1000)
    assert len(whole(OK + b"Content-Length: 100\r\n\r\n" + b"x" * 100).body) == 100
    bad(OK + b"Content-Length: 101\r\n\r\n" + b"x" * 101)
    assert len(whole(chunked + b"64\r\n" + b"x" * 100 + b"\r\n0\r\n\r\n").body) == 100
    bad(chunked + b"63\r\n" + b"x" * 99 + b"\r\n2\r\nab\r\n0\r\n\r\n")
    assert whole(chunked + b"0;" + b"x" * 48 + b"\r\n\r\n").body == b""
    bad(chunked + b"0;" + b"x" * 49 + b"\r\n\r\n")
    bad(chunked + b"0\r\n" + b"x" * 51 + b"\r\n\r\n")


def test_partial_response_has_the_received_body():
    reader = ResponseReader()
    assert reader.partial_response() is None
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n")
    assert reader.partial_response() is None
    reader.feed(b"\r\nab")
    partial = reader.partial_response()
    assert partial is not None
    assert (partial.status, partial.headers["content-length"], partial.body) == (200, "5", b"ab")
    assert reader.feed(b"cde").body == b"abcde"
    assert reader.partial_response() is None


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "trailers": (HEAD + b"0\r\n", b"x: a\r\n"),
    "chunk extensions": (HEAD, b"1;" + b"x" * 4000 + b"\r\na\r\n"),
    "an error": (HEAD.replace(b"200 OK", b"503 No"), b"1000\r\n" + b"a" * 4096 + b"\r\n"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_reader_refuses_a_response_that_does_not_end(what):
    begin, again = ENDLESS[what]
    reader = ResponseReader()
    if begin:
        assert reader.feed(begin) is None
    with pytest.raises(BadResponse):  # noqa: PT012 - which of them is refused does not matter
        for _ in range(20_000):
            assert reader.feed(again) is None
