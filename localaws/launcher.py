"""Start the emulator as a child process from Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from localaws.processes import end_process

_ROOT = Path(__file__).resolve().parent.parent


class LocalAwsFailed(Exception):
    """Raised if the emulator did not start. The reason is on standard error."""


class LocalAws:
    """Context manager that runs the emulator.

    `arguments` are those of `python -m localaws`. `endpoint` serves everything except DynamoDB,
    which is at `dynamodb_endpoint`. `environment` holds the variables that direct an AWS client or
    `cdk` to them. Raises LocalAwsFailed.
    """

    endpoint: str
    dynamodb_endpoint: str
    region: str
    account: str
    environment: dict[str, str]

    def __init__(self, *arguments: str) -> None:
        self._arguments: Sequence[str] = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise LocalAwsFailed("localaws is not running: use `with LocalAws() as aws:`")
        return self._process.pid

    def __enter__(self) -> Self:
        path = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
        self._process = process = subprocess.Popen(  # noqa: S603 - this package
            [sys.executable, "-m", "localaws", "--exit-on-stdin-eof", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            # Ctrl-C reaches the terminal's whole process group; the parent ends this child itself.
            start_new_session=True,
        )
        line = process.stdout.readline() if process.stdout else b""
        if not line:
            end_process(process)
            raise LocalAwsFailed(f"localaws ended with status {process.returncode}")
        ready = json.loads(line)
        self.endpoint = ready["endpoint"]
        self.dynamodb_endpoint = ready["dynamodb_endpoint"]
        self.region = ready["region"]
        self.account = ready["account"]
        self.environment = ready["environment"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            end_process(self._process, seconds=20)
            self._process = None
