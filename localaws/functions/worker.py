"""Run one execution environment: a process that starts cold, then handles event after event."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from localaws.credentials import assume_role
from localaws.functions.environment import process_environment
from localaws.functions.function import Function, Outcome
from localaws.functions.logs import LogFile, LogShipper, tail
from localaws.functions.memory import MemoryWatch
from localaws.functions.runtime_api import (
    RESPONSE_BYTES,
    HandlerResult,
    Invocation,
    ReadyForEvent,
    ResponseTooLarge,
    RuntimeApi,
)

# Lambda allows 10 seconds for a start and retries it once. Several starts may share few cores here,
# so both attempts become one longer limit.
_START_SECONDS = 30.0
_BOOTSTRAP = Path(__file__).with_name("bootstrap.py")


@dataclass(frozen=True)
class SharedResources:
    """Resources that all environments share. `endpoints`: the AWS_ENDPOINT_URL variables."""

    work_folder: Path
    log_folder: Path
    endpoints: Mapping[str, str]
    memory: MemoryWatch
    shipper: LogShipper


@dataclass(frozen=True)
class _ProcessExit:
    """Message: the process has ended. A negative `code` is the number of a signal."""

    code: int


class Worker:
    """Process of one environment, started at construction. It runs one invocation at a time.

    `usable` is false after a failure that ends the process.
    """

    def __init__(
        self, function: Function, code: Path, layers: Path, shared: SharedResources
    ) -> None:
        self._function = function
        self._shared = shared
        self._messages: SimpleQueue[Any] = SimpleQueue()
        self._api = RuntimeApi(self._messages)
        self._log = LogFile(shared.log_folder, function)
        self._home = Path(tempfile.mkdtemp(prefix="home-", dir=shared.work_folder))
        self._started = False
        self._too_much_memory = False
        self.usable = True
        environment = process_environment(
            function,
            assume_role(function.role, function.name, function.region),
            task_root=code,
            layers=layers,
            home=self._home,
            runtime_api=self._api.address,
            log_stream=self._log.stream,
            endpoints=shared.endpoints,
        )
        self._process = subprocess.Popen(  # noqa: S603 - a function that the user deployed
            # -P and -s hide this package's folder and the user's site-packages from the function.
            [sys.executable, "-P", "-s", str(_BOOTSTRAP), function.handler],
            cwd=code,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._log.file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threading.Thread(target=self._reap, name="reaper", daemon=True).start()

    def invoke(self, payload: bytes) -> Outcome:
        """Handle one event. Every failure becomes a result with Lambda's error."""
        request_id = str(uuid.uuid4())
        position = self._log.size()
        memory = self._shared.memory
        limit = self._function.memory_mb * 1024 * 1024
        memory.watch(self._process.pid, limit, self._end_for_memory)
        begun = time.monotonic()
        self._log.write(f"START RequestId: {request_id} Version: {self._function.version}\n")
        failure = self._serve(request_id, payload)
        duration = (time.monotonic() - begun) * 1000
        peak = -(-memory.unwatch(self._process.pid) // (1024 * 1024))
        if failure.failed and not self.usable:
            self._log.write(json.loads(failure.payload)["errorMessage"] + "\n")
        self._log.write(
            f"END RequestId: {request_id}\nREPORT RequestId: {request_id}\t"
            f"Duration: {duration:.2f} ms\tMemory Size: {self._function.memory_mb} MB\t"
            f"Max Memory Used: {peak} MB\n"
        )
        log = self._log.read_from(position)
        self._shared.shipper.ship(self._function, self._log.stream, log)
        return Outcome(failure.payload, failure.failed, tail(log))

    def close(self) -> None:
        """Kill the process, even during an invocation."""
        self.usable = False
        self._kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._api.close()
        self._log.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def _serve(self, request_id: str, payload: bytes) -> Outcome:
        if not self._started:
            failure = self._wait_for_start(request_id)
            if failure is not None:
                self.usable = False
                return failure
        seconds = self._function.timeout_seconds
        deadline = time.monotonic() + seconds
        invocation = Invocation(request_id, payload, time.time() + seconds, self._function.arn)
        self._api.send_event(invocation)
        while True:
            try:
                message = self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return self._timed_out(request_id, seconds)
            match message:
                case HandlerResult(body, failed):
                    return Outcome(body, failed)
                case ResponseTooLarge():
                    text = (
                        "Response payload size exceeded maximum allowed payload size "
                        f"({RESPONSE_BYTES} bytes)."
                    )
                    return _error("Function.ResponseSizeTooLarge", text)
                case _ProcessExit(code):
                    return self._exited(request_id, code)

    def _wait_for_start(self, request_id: str) -> Outcome | None:
        """Wait until the process requests its first event. Return None, or the failure."""
        try:
            message = self._messages.get(timeout=_START_SECONDS)
        except Empty:
            return self._timed_out(request_id, _START_SECONDS)
        match message:
            case ReadyForEvent():
                self._started = True
                return None
            case HandlerResult(body):
                # The module could not be imported; the process ends by itself.
                return Outcome(body, failed=True)
            case _ProcessExit(code):
                return self._exited(request_id, code)
        return None

    def _timed_out(self, request_id: str, seconds: float) -> Outcome:
        self.usable = False
        self._kill()
        text = f"RequestId: {request_id} Error: Task timed out after {seconds:.2f} seconds"
        return _error("Sandbox.Timedout", text)

    def _exited(self, request_id: str, code: int) -> Outcome:
        self.usable = False
        if self._too_much_memory or code == -signal.SIGKILL:
            reason = "signal: killed"
        elif code < 0:
            reason = f"signal: {signal.strsignal(-code) or -code}".lower()
        else:
            reason = f"exit status {code}"
        text = f"RequestId: {request_id} Error: Runtime exited with error: {reason}"
        return _error("Runtime.ExitError", text)

    def _end_for_memory(self) -> None:
        self._too_much_memory = True
        self._kill()

    def _kill(self) -> None:
        # Popen signals the process only while it is its child, so a reused pid is never signalled.
        self._process.kill()

    def _reap(self) -> None:
        self._messages.put(_ProcessExit(self._process.wait()))


def _error(kind: str, message: str) -> Outcome:
    return Outcome(json.dumps({"errorType": kind, "errorMessage": message}).encode(), failed=True)
