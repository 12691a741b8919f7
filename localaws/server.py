"""Serve moto on 127.0.0.1, refuse web pages, and pass roles' calls to the observers."""

from __future__ import annotations

import io
import re
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from moto import backends
from moto.backends import list_of_moto_modules
from moto.moto_server import werkzeug_app
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import BaseWSGIServer, make_server

from localaws.browser_guard import browser_refusal
from localaws.call_observers import check_missing_object, check_signed_request
from localaws.iam.refusals import HttpResponse, access_denied
from localaws.iam.requests import Request, parse_signature
from localaws.patches.monkeypatch import replace
from localaws.settings import HOST

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
# Larger bodies are objects, and no permission depends on an object's content.
_READ_BYTES = 1_048_576
_CUSTOM_RESOURCE = re.compile(r"/cloudformation_[a-z0-9-]+/cfnresponse")


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log(self, type: str, message: str, *args: Any) -> None:
        """Drop request logs, because there are thousands of requests."""


class Server:
    """HTTP server whose port is bound at construction; it serves requests after `start`."""

    def __init__(self, port: int, *, watch: bool) -> None:
        self._socket = socket.create_server((HOST, port), backlog=256)
        self.endpoint = f"http://{HOST}:{self._socket.getsockname()[1]}"
        self._watch = watch
        self._server: BaseWSGIServer | None = None

    def start(self) -> None:
        # moto would search its folders at every request.
        modules = tuple(list_of_moto_modules())
        replace(backends, "list_of_moto_modules", lambda: modules)
        # moto's CORS headers would let every web page read the responses.
        replace(werkzeug_app, "CORS", lambda _: None)
        application: Application = DomainDispatcherApplication(create_backend_app)
        if self._watch:
            application = _observe_calls(application)
        application = _refuse_browsers(application, self._socket.getsockname()[1])
        self._server = make_server(
            HOST,
            self._socket.getsockname()[1],
            application,
            threaded=True,
            request_handler=_Handler,
            fd=self._socket.fileno(),
        )
        self._server.daemon_threads = True  # type: ignore[attr-defined]
        threading.Thread(target=self._server.serve_forever, name="server", daemon=True).start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._socket.close()


def _refuse_browsers(application: Application, port: int) -> Application:
    """Refuse requests of web pages and unsigned requests before any other code sees them."""

    def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = _parse_request(environ)
        refused = browser_refusal(request.method, request.headers, port) or _missing_signature(
            request
        )
        if refused is None:
            return application(environ, start_response)
        _drain_body(environ)
        return _refuse(request, refused, start_response)

    return call


def _missing_signature(request: Request) -> str | None:
    """Return the reason to refuse a request without a signature; None to accept it.

    The signature itself is not verified. A web page cannot send an Authorization header without a
    preflight request, which is refused.
    """
    if request.headers.get("authorization", "").startswith("AWS4-"):
        return None
    # A custom resource's response URL is itself the permission to answer, by PUT.
    if request.method == "PUT" and _CUSTOM_RESOURCE.fullmatch(request.path):
        return None
    return "localaws: the request is missing a signature (Signature Version 4)"


def _observe_calls(application: Application) -> Application:
    def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = _parse_request(environ)
        refused = check_signed_request(request)
        if refused is not None:
            _drain_body(environ)
            return _refuse(request, refused, start_response)
        begun: list[Any] = []
        answer = application(environ, lambda *start: begun.extend(start))
        if begun[0].startswith("404 "):
            answer = [b"".join(answer)]
            refused = check_missing_object(request)
            if refused is not None and b"NoSuchBucket" not in answer[0]:
                return _refuse(request, refused, start_response)
        start_response(*begun)
        return answer

    return call


def _refuse(request: Request, why: str, start_response: Any) -> Iterable[bytes]:
    answer = denied_response(request, why)
    headers = [*answer.headers.items(), ("Content-Length", str(len(answer.body)))]
    start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", headers)
    return [answer.body]


def _drain_body(environ: dict[str, Any]) -> None:
    """Read the rest of the body: a client cut off while sending would not read the response."""
    left = int(environ.get("CONTENT_LENGTH") or 0)
    while left > 0 and (piece := environ["wsgi.input"].read(min(left, _READ_BYTES))):
        left -= len(piece)


def denied_response(request: Request, why: str) -> HttpResponse:
    """Return the response with which AWS refuses a call."""
    signature = parse_signature(request)
    if signature is not None:
        return access_denied(signature.service, request, why)
    form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    anonymous = not form and "x-amz-target" not in request.headers
    # An unsigned request is taken for one to S3, the only service here with anonymous clients.
    return access_denied("s3" if anonymous else "", request, why)


def _parse_request(environ: dict[str, Any]) -> Request:
    headers = {
        name[5:].replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_") and isinstance(value, str)
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    path = environ.get("RAW_URI") or environ.get("REQUEST_URI") or environ["PATH_INFO"]
    return Request(
        environ["REQUEST_METHOD"],
        path.split("?", 1)[0],
        environ.get("QUERY_STRING", ""),
        headers,
        lambda: _body(environ),
    )


def _body(environ: dict[str, Any]) -> bytes:
    """Read the request body, and leave a copy of it for moto."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not 0 < length <= _READ_BYTES:
        return b""
    body: bytes = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    return body
