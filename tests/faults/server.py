"""DynamoDB over real sockets with scripted faults.

``FaultServer`` is a context manager; ``python -m tests.faults.server`` runs one by itself, prints
its port, and ends with its standard input or at SIGTERM. Both listen on 127.0.0.1 only.
"""

from __future__ import annotations

import argparse
import json
import signal
import ssl
import sys
import threading
from collections.abc import Callable, Container, Iterable
from types import FrameType
from typing import Any, Self

from botocore.exceptions import ClientError, ParamValidationError

from tests.fakes.client import Script
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_faults import Fault
from tests.faults import wire
from tests.faults.catalogue import FAULTS, LIES, SURVIVABLE, Chance, NotWritten, checked
from tests.faults.handler import HOST, Request, Server
from tests.faults.wire import Response

OPERATIONS = {
    "BatchExecuteStatement": "batch_execute_statement",
    "BatchWriteItem": "batch_write_item",
    "CreateTable": "create_table",
    "DeleteTable": "delete_table",
    "DescribeTable": "describe_table",
    "GetItem": "get_item",
    "DeleteItem": "delete_item",
    "PutItem": "put_item",
    "UpdateItem": "update_item",
    "Scan": "scan",
}
MAX_REQUEST_BYTES = 16 * 1024 * 1024


class FaultServer:
    """Server of ``dynamodb`` on 127.0.0.1 while its block runs.

    ``faults`` is the script, by operation: ``server.faults.add("BatchWriteItem", "html_502")``;
    its ``decide`` may be a Chance. ``keys`` are the accepted access keys (None: any), and the
    clock is ``ahead`` by some seconds. ``statement_faults`` are Fault.statement of the next
    requests with statements. ``requests`` records the requests, ``connections`` their
    number, and ``endpoint`` is the URL.
    """

    def __init__(
        self,
        dynamodb: FakeDynamoDB | None = None,
        drip_seconds: float = 0.5,
        stall_seconds: float = 2.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.drip_seconds = drip_seconds
        self.stall_seconds = stall_seconds
        self.stopping = threading.Event()
        self.faults: Script[str] = Script()
        self.requests: list[Request] = []
        self._current = threading.local()  # .fault: that of the call this thread is in
        self.dynamodb = dynamodb or FakeDynamoDB(sleep=self.stopping.wait)
        self.dynamodb.faults.decide = lambda _operation, _params: self._fault_here()
        self.statement_faults: list[Callable[[int], str | None]] = []
        self.keys: Container[str] | None = None
        self.ahead = 0.0
        self._scheme = "http" if tls is None else "https"
        self._server = Server(self)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        return self._server.accepted

    def fail_at_random(
        self,
        seed: int,
        names: Iterable[str],
        rate: float,
        operations: Iterable[str] = ("BatchWriteItem",),
    ) -> None:
        """Let calls fail at random, unless the script has a fault for them."""
        chance, told = Chance(seed, names, rate), frozenset(operations)
        self.faults.decide = lambda op, params: chance(op, params) if op in told else None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.cut_connections()
        self._server.server_close()
        self._thread.join()

    def call(self, operation: str, body: bytes, fault: str | None) -> Response | None:
        """Answer one request; None if the fault breaks the connection instead."""
        method = OPERATIONS.get(operation)
        if method is None:
            return wire.failure("UnknownOperationException", 400, "")
        if len(body) > MAX_REQUEST_BYTES:
            return wire.failure("", 413, "")
        try:
            shape = self.dynamodb.meta.service_model.operation_model(operation).input_shape
            params = wire.decode(shape, json.loads(body))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return wire.failure("SerializationException", 400, str(error))
        self._current.fault = self._fault_of(fault, params)
        try:
            return wire.answer(getattr(self.dynamodb, method)(**params))
        except ClientError as error:
            return wire.failure_of(error)
        except (ParamValidationError, TypeError) as error:
            return wire.failure("ValidationException", 400, str(error))
        except NotWritten:
            return None

    def _fault_here(self) -> Fault | None:
        fault: Fault | None = getattr(self._current, "fault", None)
        return fault

    def _fault_of(self, name: str | None, params: dict[str, Any]) -> Fault:
        if name is None:
            pending = self.statement_faults if "Statements" in params else []
            return Fault(statement=pending.pop(0)) if pending else Fault()
        if name == "late":
            return Fault(delay=self.stall_seconds)
        return FAULTS[name].call(params)


def main(arguments: list[str] | None = None) -> None:
    """Run a server until standard input ends or SIGTERM arrives."""
    listed = "\n".join(f"  {name:40}{fault.says}" for name, fault in FAULTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.server",
        description=__doc__,
        epilog=f"faults:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.1, help="faults a call, 0 to 1")
    parser.add_argument(
        "--faults", default="survivable", help="names with commas, or survivable, or lies"
    )
    parser.add_argument("--operations", default="BatchWriteItem", help="names with commas")
    parser.add_argument("--stall-seconds", type=float, default=2.0)
    given = parser.parse_args(arguments)
    groups: dict[str, Iterable[str]] = {"survivable": SURVIVABLE, "lies": LIES}
    try:
        names = checked(groups.get(given.faults) or given.faults.split(","))
    except ValueError as error:
        parser.error(str(error))

    def stop(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    with FaultServer(stall_seconds=given.stall_seconds) as server:
        server.fail_at_random(given.seed, names, given.rate, given.operations.split(","))
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
