"""What is known of a function when it is invoked."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Function:
    """One version of a function. Two that are equal may use each other's processes.

    `arn` is that of the version; `memory_mb` and `timeout_seconds` are its limits; `code` is a
    zip archive, known by `code_hash`; `reserved` is its reserved concurrency, if any.
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


@dataclass(frozen=True)
class Outcome:
    """What an invocation came to. `payload` is JSON; an error's has errorType and errorMessage.

    `log_tail`: the last 4 KB that the invocation logged.
    """

    payload: bytes
    failed: bool
    log_tail: bytes = b""
