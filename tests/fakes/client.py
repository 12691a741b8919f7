"""Base of the fakes: botocore's parameter validation and errors, and scripted faults."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import botocore.session
from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from botocore.paginate import Paginator, PaginatorModel
from botocore.validate import validate_parameters

if TYPE_CHECKING:
    from botocore.model import OperationModel, ServiceModel

URL = "http://fake.invalid/"
FaultT = TypeVar("FaultT")


@dataclass(frozen=True)
class ServiceError:
    """An error response of the service, which the client raises as botocore's exception.

    ``status`` is the HTTP status, ``members`` are fields besides code and message.
    """

    code: str
    status: int
    message: str = ""
    members: Mapping[str, Any] = field(default_factory=dict)


class Refused(Exception):
    """Error response of the service, which the client raises as a ClientError."""

    def __init__(self, error: ServiceError) -> None:
        super().__init__(error.code)
        self.error = error


def refused(code: str, status: int, message: str, **details: str) -> Refused:
    """Make the error to raise. ``details`` are S3's further fields of ``Error``."""
    error = {"Error": {"Code": code, "Message": message, **details}} if details else {}
    return Refused(ServiceError(code, status, message, error))


def unreachable() -> EndpointConnectionError:
    """Make botocore's error for a refused connection."""
    return EndpointConnectionError(endpoint_url=URL)


def connect_timeout() -> ConnectTimeoutError:
    """Make botocore's error for a connect time-out: nothing was sent."""
    return ConnectTimeoutError(endpoint_url=URL)


def read_timeout() -> ReadTimeoutError:
    """Make botocore's error for a read time-out: the request may have taken effect."""
    return ReadTimeoutError(endpoint_url=URL)


def connection_closed() -> ConnectionClosedError:
    """Make botocore's error for a closed connection: the request may have taken effect."""
    return ConnectionClosedError(endpoint_url=URL)


class Script(Generic[FaultT]):
    """Faults of the next calls by operation (``get_object``); None for a call that works.

    When an operation's faults are used up, ``decide(operation, params)`` chooses, if it is set.
    """

    def __init__(self) -> None:
        self.decide: Callable[[str, dict[str, Any]], FaultT | None] | None = None
        self._entries: dict[str, deque[FaultT | None]] = {}
        self._lock = threading.Lock()

    def add(self, operation: str, *faults: FaultT | None, times: int = 1) -> None:
        """Append ``faults``, ``times`` over, for the next calls of ``operation``."""
        with self._lock:
            self._entries.setdefault(operation, deque()).extend(faults * times)

    def next(self, operation: str, params: dict[str, Any]) -> FaultT | None:
        """Take the fault of this call; None for a call that works."""
        with self._lock:
            entries = self._entries.get(operation)
            if entries:
                return entries.popleft()
        return self.decide(operation, params) if self.decide else None

    def left(self) -> dict[str, int]:
        """Count the unused faults by operation; empty when the script is done."""
        with self._lock:
            return {name: len(entries) for name, entries in self._entries.items() if entries}


@dataclass(frozen=True)
class Call:
    """A recorded call; ``number`` counts from 0 over all operations."""

    number: int
    operation: str
    params: dict[str, Any]


class FakeClient:
    """Base of the fakes: the part of a botocore client that needs no service.

    Raises ParamValidationError as botocore does, before the call is recorded, and TypeError for a
    parameter that the fake does not implement, so that it is never silently ignored.
    """

    service: str

    def __init__(self, region: str = "us-east-1") -> None:
        self._model = _service_model(self.service)
        self.exceptions: Any = ClientExceptionsFactory().create_client_exceptions(self._model)
        self.meta = SimpleNamespace(
            region_name=region, service_model=self._model, endpoint_url=URL, partition="aws"
        )
        self.calls: list[Call] = []
        self._lock = threading.RLock()

    def get_paginator(self, operation: str) -> Paginator[Any]:
        """Make botocore's paginator over this client."""
        name = _operation_name(operation)
        config = PaginatorModel(_paginators(self.service)).get_paginator(name)
        return Paginator(getattr(self, operation), config, self._model.operation_model(name))

    def close(self) -> None:
        """Do nothing: a fake has no connections."""

    def _record(self, operation: str, params: dict[str, Any], known: frozenset[str]) -> Call:
        shape = self._operation(operation).input_shape
        assert shape is not None
        validate_parameters(params, shape)
        unknown = params.keys() - known
        if unknown:
            raise TypeError(f"{operation}: this fake does not know {', '.join(sorted(unknown))}")
        with self._lock:
            call = Call(len(self.calls), operation, params)
            self.calls.append(call)
        return call

    def _operation(self, operation: str) -> OperationModel:
        return self._model.operation_model(_operation_name(operation))

    def _exception(self, operation: str, error: ServiceError | BaseException) -> BaseException:
        if isinstance(error, BaseException):
            return error
        response = {
            "Error": {"Code": error.code, "Message": error.message},
            "ResponseMetadata": self._metadata(error.status),
            **error.members,
        }
        raised: Callable[[dict[str, Any], str], BaseException] = self.exceptions.from_code(
            error.code
        )
        return raised(response, _operation_name(operation))

    def _metadata(self, status: int, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        return {
            "RequestId": f"{len(self.calls):052d}",
            "HTTPStatusCode": status,
            "HTTPHeaders": dict(headers or {}),
            "RetryAttempts": 0,
        }


def _operation_name(operation: str) -> str:
    # list_objects_v2 is ListObjectsV2: every word gets its capital.
    return "".join(word.capitalize() for word in operation.split("_"))


@cache
def _service_model(service: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(service)


@cache
def _paginators(service: str) -> dict[str, Any]:
    loader = botocore.session.get_session().get_component("data_loader")
    model: dict[str, Any] = loader.load_service_model(service, "paginators-1")
    return model
