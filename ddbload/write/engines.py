"""A driver for each engine's name, and what it sends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ddbload.contracts import Options
from ddbload.write.asynchronous import AsyncDriver
from ddbload.write.driver import Driver
from ddbload.write.dynamodb import ClientWriter
from ddbload.write.requests import Requests
from ddbload.write.sync import SyncDriver
from ddbload.write.threads import ThreadsDriver
from ddbload.write.wire import Wire

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from ddbload.aws_http.identity import Identity


class Reach(Protocol):
    """How DynamoDB is reached."""

    @property
    def dynamodb(self) -> DynamoDBClient:
        """By a boto3 client."""

    @property
    def identity(self) -> Identity:
        """By requests of one's own. Raises `AwsConfiguration`."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How rows are written."""

    driver: Callable[[int], Driver]
    """Made for so many requests in flight."""
    transport: Callable[[Reach, Requests], Any]
    """What its driver sends with."""
    concurrent: bool = True
    """Whether several requests are under way."""


ENGINES = {
    "sync": Engine(
        lambda _: SyncDriver(),
        lambda reach, requests: ClientWriter(reach.dynamodb, requests),
        concurrent=False,
    ),
    "threads": Engine(
        ThreadsDriver, lambda reach, requests: ClientWriter(reach.dynamodb, requests)
    ),
    "async": Engine(AsyncDriver, lambda reach, requests: Wire(reach.identity, requests)),
}


def driver_of(options: Options) -> Driver:
    """The driver that a run's options ask for. The caller closes it."""
    return ENGINES[options.engine].driver(concurrency_of(options))


def concurrency_of(options: Options) -> int:
    """How many requests may be under way."""
    return options.concurrency if ENGINES[options.engine].concurrent else 1


def transport_of(options: Options, reach: Reach, requests: Requests) -> Any:
    """What that driver sends with."""
    return ENGINES[options.engine].transport(reach, requests)
