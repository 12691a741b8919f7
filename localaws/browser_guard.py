"""Refuse requests that a web page in the developer's browser sends to this machine.

Listening on 127.0.0.1 alone does not keep pages out, and signatures are not verified. Three facts
identify a page's request: browsers add headers that a page cannot suppress; with DNS rebinding the
Host is the page's domain; and a page needs a preflight OPTIONS request before it may send an
Authorization header or choose its User-Agent.

Every listening port has a guard: `browser_refusal` in front of moto, `BrowserGuard` in Python's
HTTP servers, and the same checks in `dynalite_server.cjs` in front of dynalite.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from localaws.settings import HOST

# No AWS client sends these. `Sec-Fetch-Site: none` is refused too: browsers send it for a typed
# address, and keep it when that address redirects here.
_BROWSER_HEADERS = ("origin", "referer", "sec-fetch-site")


def browser_refusal(method: str, headers: Mapping[str, str], port: int) -> str | None:
    """Return the reason to refuse a web page's request; None to accept it.

    Header names are in lower case.
    """
    if method == "OPTIONS":
        return "localaws: OPTIONS requests come from browsers"
    for name in _BROWSER_HEADERS:
        if name in headers:
            return f"localaws: the header {name} comes from a browser"
    host = headers.get("host", "")
    if not _names_this_server(host, port):
        return (
            f"localaws: the Host is {host or 'missing'}, and must be {HOST}:{port},"
            f" localhost:{port} or a name below it"
        )
    return None


def _names_this_server(host: str, port: int) -> bool:
    """Return whether the Host header is this server, or a bucket below `localhost`."""
    name, _, given = host.lower().partition(":")
    return (given or "80") == str(port) and (
        name in {HOST, "localhost"} or name.endswith(".localhost")
    )


class BrowserGuard(BaseHTTPRequestHandler):
    """Request handler that refuses requests of web pages, whatever the method."""

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        headers = {name.lower(): value for name, value in self.headers.items()}
        why = self.refusal(headers)
        if why is None:
            return True
        body = json.dumps({"__type": "AccessDeniedException", "message": why}).encode()
        self.send_response_only(HTTPStatus.FORBIDDEN)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        # The body is not read, so the connection must close before it is parsed as the next
        # request.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        return False

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Return the reason to refuse this request; None to accept it."""
        return browser_refusal(self.command, headers, self.connection.getsockname()[1])
