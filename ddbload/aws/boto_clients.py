"""botocore clients without retries, with time-outs that fit a deadline and bounded responses.

ddbload repeats calls itself. botocore is used directly because boto3 takes longer to import.
urllib3's time-outs are those of one read, so that a server which sends a byte now and then holds a
request for hours. Here all reads of a response share their seconds, and a body has a limit.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore import exceptions as aws
from botocore.awsrequest import AWSHTTPConnectionPool, AWSHTTPSConnectionPool
from botocore.config import Config
from botocore.loaders import Loader

from ddbload import __version__
from ddbload.aws.failures import (
    DAMAGED,
    BodyCutShort,
    ChecksumMismatch,
    LengthMissing,
    first_line,
    has_valid_checksum,
)
from ddbload.aws.http_client.http1 import (
    LEAST_BYTES_PER_SECOND,
    MAX_BODY_BYTES,
    MAX_ERROR_BYTES,
    MAX_HEAD_BYTES,
)
from ddbload.errors import AwsConfiguration, did_you_mean

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.session import Session

CONNECT_SECONDS = 5
READ_SECONDS = 15
"""Time-out of a read. All reads of a response together have as long, and a second more for each
`LEAST_BYTES_PER_SECOND` that arrive. A step's deadline leaves at least this much time."""
ALLOW_HTTP = "DDBLOAD_ALLOW_HTTP"
"""Environment variable: 1 to send requests over http to any host."""
# The machine that a container runs on, by the name that Docker gives it.
_OWN_NAMES = ("localhost", "host.docker.internal")
# RFC 6761: this machine; and names that no resolver finds, except for tests.
_RESERVED = (".localhost", ".test", ".example", ".invalid")


def _may_be_plain(host: str) -> bool:
    """Return whether a host is this machine, as emulators are, or any host is allowed.

    Names of a local network are not enough: anybody in it may answer for them.
    """
    if os.environ.get(ALLOW_HTTP) == "1":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.removesuffix(".").lower()
        return name in _OWN_NAMES or name.endswith(_RESERVED)
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


class _Loader(Loader):
    """Loader of botocore's models that looks for a model in the folder of its service alone.

    To know which services exist, botocore's loader looks into the folders of all of them, which
    takes a quarter of the time that a client takes.
    """

    def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002 - botocore's
        """List the folders of services, whatever models they have."""
        folders = (path for path in self.search_paths if os.path.isdir(path))  # noqa: PTH112 - fast
        return sorted({name for path in folders for name in os.listdir(path)})  # noqa: PTH208

    def determine_latest_version(self, service_name: str, type_name: str) -> str:
        """Find the latest version of a model. Raises botocore's `UnknownServiceError`."""
        try:
            return str(super().determine_latest_version(service_name, type_name))
        except aws.DataNotFoundError:
            raise aws.UnknownServiceError(
                service_name=service_name, known_service_names="others"
            ) from None


def _load_models_by_service(session: Session) -> None:
    usual = session.get_component("data_loader")
    if not isinstance(usual, _Loader):
        loader = _Loader(extra_search_paths=usual.search_paths, include_default_search_paths=False)
        session.register_component("data_loader", loader)


def make_client(
    session: Session,
    service: Any,
    *,
    region: str | None,
    endpoint_url: str | None,
    connections: int,
    seconds: int | None = None,
) -> Any:
    """Make a client. `seconds`: its time-outs, where they are not the usual ones.

    Raises `AwsConfiguration`.
    """
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=seconds or CONNECT_SECONDS,
        read_timeout=seconds or READ_SECONDS,
        max_pool_connections=connections,
        tcp_keepalive=True,
        # Items were validated before, by stricter rules.
        parameter_validation=service != "dynamodb",
        user_agent_extra=f"ddbload/{__version__}",
    )
    # botocore reads only AWS_DEFAULT_REGION, while the AWS CLI and Lambda use AWS_REGION.
    region = region or os.environ.get("AWS_REGION") or None
    try:
        _load_models_by_service(session)
        client: Any = session.create_client(
            service, region, config=config, endpoint_url=endpoint_url
        )
        # botocore would report these only with the first request.
        endpoint = urlsplit(client.meta.endpoint_url)
        if endpoint.scheme not in ("http", "https") or endpoint.port == 0:
            raise ValueError(f"Invalid endpoint: {client.meta.endpoint_url}")
    except (aws.BotoCoreError, ValueError) as error:
        raise configuration_error(error) from None
    if endpoint.scheme == "http" and not _may_be_plain(endpoint.hostname or ""):
        raise AwsConfiguration(
            f"AWS settings: the endpoint {endpoint.hostname} of {service} is http, so rows and"
            " session tokens would cross the network readable; write https, or allow it by"
            f" {ALLOW_HTTP}=1"
        )
    _check_region(session, client.meta.region_name, endpoint.hostname or "")
    # By its service, so that it comes before handlers that replace the body.
    name = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register(f"before-parse.{name}", check_length)
    if service == "dynamodb":
        client.meta.events.register("before-parse.dynamodb", check_crc32)
    # botocore offers no way to pass its pools: the dictionary is shared with those of proxies.
    pools = client._endpoint.http_session._pool_classes_by_scheme  # noqa: SLF001
    pools.update(_POOLS)
    client.meta.events.register(f"before-send.{name}", _expect)
    return client


def _check_region(session: Session, region: str, host: str) -> None:
    """Raise `AwsConfiguration` for a region that AWS cannot have, such as us-east1."""
    if not host.endswith(".amazonaws.com") or region not in host:
        return
    try:
        session.get_partition_for_region(region)
    except aws.UnknownRegionError:
        near = did_you_mean(region, session.get_available_regions("dynamodb"))
        # Other names may be those of emulators, behind a proxy.
        if near:
            raise AwsConfiguration(
                f"AWS settings: {region!r} is not a region of AWS{near} (--region, AWS_REGION)"
            ) from None


def configuration_error(error: Exception) -> AwsConfiguration:
    """Make the named error for settings that botocore cannot use."""
    hint = ""
    if isinstance(error, aws.NoRegionError):
        hint = " Set AWS_REGION, or give --region."
    elif isinstance(error, aws.ProfileNotFound):
        hint = "; aws configure list-profiles lists them (--profile, AWS_PROFILE)"
    elif isinstance(error, ValueError) and "endpoint" in str(error):
        hint = "; write it with its scheme, such as http://localhost:8000 (--endpoint-url)"
    return AwsConfiguration(f"AWS settings: {first_line(error)}{hint}")


def check_crc32(response_dict: dict[str, Any], **_: object) -> None:
    """Raise `ChecksumMismatch` for a damaged body, as a `before-parse` handler of botocore."""
    body = response_dict.get("body")
    if isinstance(body, bytes) and not has_valid_checksum(response_dict.get("headers") or {}, body):
        raise ChecksumMismatch(DAMAGED)


def check_length(response_dict: dict[str, Any], operation_model: Any, **_: object) -> None:
    """Raise for a body that may have been cut short, as a `before-parse` handler of botocore.

    botocore would accept a body that ends with its connection, and an error's body that is shorter
    than it should be: the error would have no code, and end the run. AWS does not send such bodies,
    and ddbload's HTTP client refuses them, too.

    Raises `LengthMissing` without a length, and `BodyCutShort` for fewer bytes.
    """
    if response_dict.get("status_code") in (204, 304) or operation_model.http["method"] == "HEAD":
        return
    headers = response_dict.get("headers") or {}
    body: Any = response_dict.get("body")
    length: str | None = headers.get("content-length")
    if length is not None or "transfer-encoding" in headers:
        # A compressed body was decompressed meanwhile.
        is_as_sent = isinstance(body, bytes) and "content-encoding" not in headers
        if is_as_sent and (length or "").isdecimal() and len(body) < int(length or 0):
            raise BodyCutShort(f"{len(body)} of the answer's {length} bytes have arrived")
        return
    if hasattr(body, "close"):
        body.close()
    raise LengthMissing("the answer does not say how long it is, so it may have been cut short")


_PIECE_BYTES = 64 * 1024
# Whether the thread's request expects a body that its caller reads in pieces, or a short one.
_expected = threading.local()


class Patience:
    """Seconds that a request may wait for the network: the time-out, and more for each byte.

    Only waiting counts: a caller may take its time between two pieces of a body.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._left = seconds
        self._clock = clock
        self._begun = 0.0

    def begin(self) -> float:
        """Begin to wait; returns the seconds that are left. Raises `TimeoutError` for none."""
        if self._left <= 0:
            raise TimeoutError("timed out: the bytes came too slowly")
        self._begun = self._clock()
        return self._left

    def end(self, moved: int) -> None:
        """Count the seconds since `begin`, and the bytes that were moved meanwhile."""
        self._left += moved / LEAST_BYTES_PER_SECOND - (self._clock() - self._begun)


class BoundedReader(io.RawIOBase):
    """Bytes of one response: within its `Patience`, and no more than `most_bytes`."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, patience: Patience) -> None:
        super().__init__()
        self._raw, self._sock, self._patience = raw, sock, patience
        self._timeout: Any = sock.gettimeout()
        self.most_bytes: float = _PIECE_BYTES + MAX_HEAD_BYTES
        """Bytes that may still come."""

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read what there is. Raises `TimeoutError`, and `ConnectionError` for too much."""
        self._sock.settimeout(min(self._patience.begin(), self._timeout))
        count = self._raw.readinto(buffer) or 0
        self._patience.end(count)
        self.most_bytes -= count
        if self.most_bytes < 0:
            raise ConnectionError("the answer is too long")
        return count

    def close(self) -> None:
        """Close the file of the socket."""
        if not self.closed:
            self._raw.close()
        super().close()


class _BoundedResponse(http.client.HTTPResponse):
    """A response that is read through a `BoundedReader`."""

    def __init__(self, sock: Any, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        raw: Any = self.fp.detach()
        # urllib3 has set the time-out of reading by now.
        self._bounded = BoundedReader(raw, sock, Patience(sock.gettimeout()))
        self.fp = io.BufferedReader(self._bounded)

    def begin(self) -> None:
        super().begin()
        if self.status >= 300:
            self._bounded.most_bytes = MAX_ERROR_BYTES
        else:
            streams = getattr(_expected, "streams", False)
            self._bounded.most_bytes = float("inf") if streams else MAX_BODY_BYTES


class _Bounded:
    """Mixin of connections whose requests have an end time."""

    response_class = _BoundedResponse
    _patience: Patience | None = None

    def request(self, *args: Any, **more: Any) -> Any:
        self._patience = None
        return super().request(*args, **more)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        """Send bytes in pieces, and stop when the request's seconds are over."""
        connection: Any = super()
        if not isinstance(data, bytes) or self.__dict__.get("sock") is None:
            # The first bytes also connect, which has a time-out of its own.
            connection.send(data)
            return
        sock: Any = self.__dict__["sock"]
        usual = sock.gettimeout()
        self._patience = patience = self._patience or Patience(usual)
        for at in range(0, len(data), _PIECE_BYTES):
            piece = data[at : at + _PIECE_BYTES]
            sock.settimeout(min(patience.begin(), usual))
            connection.send(piece)
            patience.end(len(piece))
        sock.settimeout(usual)


_POOLS = {
    scheme: type(
        pool.__name__,
        (pool,),
        {"ConnectionCls": type(pool.ConnectionCls.__name__, (_Bounded, pool.ConnectionCls), {})},
    )
    for scheme, pool in (("http", AWSHTTPConnectionPool), ("https", AWSHTTPSConnectionPool))
}
"""botocore's connection pools by scheme, with bounded connections."""


def _expect(request: AWSPreparedRequest, **_: object) -> None:
    """Remember, as a `before-send` handler of botocore, if the body is read in pieces."""
    _expected.streams = request.stream_output
