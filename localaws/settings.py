"""What can be chosen when AWS is started on this machine, and what cannot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# moto's account; nothing here is anybody's.
ACCOUNT = "123456789012"
PARTITION = "aws"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Settings:
    """Chosen once, at the start.

    `concurrency`: environments of one function at once (AWS: 1,000 an account; this machine has
    few cores). Callers beyond it wait. `retry_seconds`: the pause before the first repetition
    of a failed asynchronous invocation, twice that before the second (AWS: 60 and 120 seconds).
    `log_folder`: where functions' logs are kept, a file for each environment; None: they last
    as long as this process. `work_folder`: everything else that must lie on a disk.
    """

    work_folder: Path
    port: int = 0
    region: str = "us-east-1"
    concurrency: int = 4
    retry_seconds: float = 1.0
    log_folder: Path | None = None
    record_calls: Path | None = None
    enforce_iam: bool = False

    @property
    def watches_calls(self) -> bool:
        return self.enforce_iam or self.record_calls is not None
