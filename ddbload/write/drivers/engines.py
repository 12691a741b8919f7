"""The choice of engine: `sync`, `threads` or `async`, each a driver with its transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddbload.contracts.options import ASYNC, SYNC, THREADS, Options
from ddbload.write.drivers.blocking import BotoTransport, SyncDriver, ThreadsDriver
from ddbload.write.drivers.driver import Driver
from ddbload.write.drivers.event_loop import EventLoopDriver, RawTransport
from ddbload.write.requests import ModeRequests

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients


@dataclass(frozen=True, slots=True)
class Engine:
    """Driver and transport of one `--engine`."""

    driver: Callable[[int], Driver]
    """Makes a driver for this many concurrent requests."""
    transport: Callable[[AwsClients, ModeRequests], Any]
    """Makes the transport that the driver sends with."""
    concurrent: bool = True
    """Several requests may be in flight."""


ENGINES_BY_NAME = {
    SYNC: Engine(
        lambda _: SyncDriver(),
        lambda clients, requests: BotoTransport(clients.dynamodb, requests),
        concurrent=False,
    ),
    THREADS: Engine(
        ThreadsDriver, lambda clients, requests: BotoTransport(clients.dynamodb, requests)
    ),
    ASYNC: Engine(
        EventLoopDriver, lambda clients, requests: RawTransport(clients.dynamodb_signer, requests)
    ),
}


def driver_for(options: Options) -> Driver:
    """Make the driver of a run's engine. The caller closes it."""
    return ENGINES_BY_NAME[options.engine].driver(concurrency_for(options))


def concurrency_for(options: Options) -> int:
    """Return the number of requests that may be in flight."""
    return options.concurrency if ENGINES_BY_NAME[options.engine].concurrent else 1


def transport_for(options: Options, clients: AwsClients, requests: ModeRequests) -> Any:
    """Make the transport that the driver of a run's engine sends with."""
    return ENGINES_BY_NAME[options.engine].transport(clients, requests)
