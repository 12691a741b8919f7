"""Keeps web pages out: any page that the developer opens can have the browser send requests here.

Listening on 127.0.0.1 alone does not keep them out, and no signature is verified. Three things
tell a page's request: headers that browsers add and pages cannot leave out, the name by which
the page reaches this machine (of the page's own, by DNS rebinding), and that a page cannot sign
by a header, nor choose a User-Agent, without asking first, by OPTIONS.

Every listening port has a guard: `browser_refusal` in front of moto, `BrowserGuard` in Python's
HTTP servers, `NODE_GUARD` in front of dynalite.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from localaws.settings import HOST

# No AWS client sends them. Sec-Fetch-Site: none is no exception: a browser says so of an address
# that a person typed or followed from a mail, and of wherever that page's owner redirects it to.
_BROWSER_HEADERS = ("origin", "referer", "sec-fetch-site")

NODE_GUARD = """
const guard = server => {
  const refusal = ({method, headers}) => {
    if (method === 'OPTIONS') return 'OPTIONS is what browsers ask for pages'
    for (const name of ['origin', 'referer', 'sec-fetch-site'])
      if (name in headers) return `the header ${name} comes from a browser`
    const port = server.address().port
    const names = ['127.0.0.1', 'localhost'].map(name => port === 80 ? name : `${name}:${port}`)
    if (!names.includes((headers.host || '').toLowerCase()))
      return `the Host is ${headers.host || 'missing'}, and must be ${names.join(' or ')}`
  }
  const [serve] = server.listeners('request')
  server.removeAllListeners('request').on('request', (request, response) => {
    const why = refusal(request)
    if (why === undefined) return serve(request, response)
    request.resume()
    response.writeHead(403, {'Content-Type': 'application/json', 'Connection': 'close'})
    response.end(JSON.stringify({__type: 'AccessDeniedException', message: `localaws: ${why}`}))
  })
  return server
}
"""
"""`guard(server)`, in JavaScript: the same for a server of Node's, before it listens."""


def browser_refusal(method: str, headers: Mapping[str, str], port: int) -> str | None:
    """Return why a request is refused; None where no page sent it. Header names are lower case."""
    if method == "OPTIONS":
        return "localaws: OPTIONS is what browsers ask for pages"
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
    """Tell whether a Host names this server. Buckets lie below localhost, a name nobody owns."""
    name, _, given = host.lower().partition(":")
    return (given or "80") == str(port) and (
        name in {HOST, "localhost"} or name.endswith(".localhost")
    )


class BrowserGuard(BaseHTTPRequestHandler):
    """Handler that refuses requests of web pages, whatever their method."""

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
        # The request's body is not read, and must not be taken for the next request.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        return False

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Return why this request is refused, or None."""
        return browser_refusal(self.command, headers, self.connection.getsockname()[1])
