"""Data classes of a function and of an invocation's result."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Layer:
    """Version of a layer: a zip archive, unpacked into /opt on AWS."""

    arn: str
    archive: bytes = field(compare=False, repr=False)


@dataclass(frozen=True)
class Function:
    """Version of a function. Equal versions share processes.

    `arn`: the version's ARN; `memory_mb` and `timeout_seconds`: its limits; `code`: a zip archive,
    compared by `code_hash`; `reserved`: its reserved concurrency, if any.
    """

    arn: str
    name: str
    version: str
    handler: str
    runtime: str
    role: str
    region: str
    memory_mb: int
    timeout_seconds: float
    log_group: str
    variables: tuple[tuple[str, str], ...]
    code_hash: str
    code: bytes = field(compare=False, repr=False)
    reserved: int | None = None
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """Result of an invocation.

    `payload`: JSON; that of a failure has errorType and errorMessage. `log_tail`: last 4 KB that
    the invocation logged.
    """

    payload: bytes
    failed: bool
    log_tail: bytes = b""
