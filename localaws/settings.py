"""Settings of the emulator, and fixed names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

# moto's default account.
ACCOUNT = "123456789012"
PARTITION = "aws"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Settings:
    """Settings chosen at the start.

    Args:
        concurrency: Maximum number of processes per function (AWS: 1,000 per account). Further
            callers wait.
        retry_seconds: Seconds before the first retry of a failed asynchronous invocation, doubled
            before the second (AWS: 60 and 120), and before a failed queue message comes again (AWS:
            the queue's visibility timeout).
        state_retry_seconds: Maximum wait before a failed state is retried (AWS: as defined by its
            state machine).
        log_folder: Folder for the functions' logs, with one file per environment; None deletes them
            at the end.
        work_folder: Folder for all other files.
    """

    work_folder: Path
    port: int = 0
    region: str = "us-east-1"
    concurrency: int = 4
    retry_seconds: float = 1.0
    state_retry_seconds: float = math.inf
    log_folder: Path | None = None
    record_calls: Path | None = None
    enforce_iam: bool = False

    @property
    def watches_calls(self) -> bool:
        return self.enforce_iam or self.record_calls is not None
