"""A driver for each engine's name, and what it sends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddbload.contracts.payload import Options
from ddbload.write.drivers.blocking import BotoTransport, SyncDriver, ThreadsDriver
from ddbload.write.drivers.driver import Driver
from ddbload.write.drivers.event_loop import EventLoopDriver, RawTransport
from ddbload.write.requests import ModeRequests

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients


@dataclass(frozen=True, slots=True)
class Engine:
    """How rows are written."""

    driver: Callable[[int], Driver]
    """Made for so many requests in flight."""
    transport: Callable[[AwsClients, ModeRequests], Any]
    """What its driver sends with."""
    concurrent: bool = True
    """Whether several requests are under way."""


ENGINES = {
    "sync": Engine(
        lambda _: SyncDriver(),
        lambda clients, requests: BotoTransport(clients.dynamodb, requests),
        concurrent=False,
    ),
    "threads": Engine(
        ThreadsDriver, lambda clients, requests: BotoTransport(clients.dynamodb, requests)
    ),
    "async": Engine(
        EventLoopDriver, lambda clients, requests: RawTransport(clients.dynamodb_signer, requests)
    ),
}


def driver_for(options: Options) -> Driver:
    """The driver that a run's options ask for. The caller closes it."""
    return ENGINES[options.engine].driver(concurrency_for(options))


def concurrency_for(options: Options) -> int:
    """How many requests may be under way."""
    return options.concurrency if ENGINES[options.engine].concurrent else 1


def transport_for(options: Options, clients: AwsClients, requests: ModeRequests) -> Any:
    """What that driver sends with."""
    return ENGINES[options.engine].transport(clients, requests)
