"""Write functions' logs to files, and copy them to moto's CloudWatch Logs."""

from __future__ import annotations

import re
import threading
import time
import uuid
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from moto.logs.models import logs_backends

from localaws.call_observers import check_json_call
from localaws.functions.function import Function
from localaws.settings import ACCOUNT

_TAIL_BYTES = 4096


class LogFile:
    """Log file of one environment. The function's process writes directly to `file`."""

    def __init__(self, folder: Path, function: Function) -> None:
        day = time.strftime("%Y/%m/%d", time.gmtime())
        self.stream = f"{day}/[{function.version}]{uuid.uuid4().hex}"
        place = folder / re.sub(r"[^\w.-]", "_", function.name)
        place.mkdir(parents=True, exist_ok=True)
        self.path = place / (self.stream.rsplit("]", 1)[-1] + ".log")
        self.file: IO[bytes] = self.path.open("ab")

    def write(self, text: str) -> None:
        self.file.write(text.encode())
        self.file.flush()

    def size(self) -> int:
        return self.path.stat().st_size

    def read_from(self, position: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(position)
            return file.read()

    def close(self) -> None:
        self.file.close()


def tail(log: bytes) -> bytes:
    """Return the last part of a log, of the length that Lambda returns to a caller."""
    return log[-_TAIL_BYTES:]


class LogShipper:
    """Background thread that copies logs to CloudWatch Logs with the function's role."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Function, str, bytes]] = SimpleQueue()
        threading.Thread(target=self._run, name="logs", daemon=True).start()

    def ship(self, function: Function, stream: str, log: bytes) -> None:
        self._queue.put((function, stream, log))

    def _run(self) -> None:
        streams: set[str] = set()
        while True:
            function, stream, log = self._queue.get()
            if stream not in streams:
                streams.add(stream)
                self._create(function, stream)
            self._put(function, stream, log)

    def _create(self, function: Function, stream: str) -> None:
        backend = logs_backends[ACCOUNT][function.region]
        if function.log_group not in backend.groups:
            # The group was deleted with its stack, or the role has to be allowed to make it.
            if not self._is_allowed(function, "CreateLogGroup", stream):
                return
            backend.ensure_log_group(function.log_group)
        if not self._is_allowed(function, "CreateLogStream", stream):
            return
        backend.create_log_stream(function.log_group, stream)

    def _put(self, function: Function, stream: str, log: bytes) -> None:
        group = logs_backends[ACCOUNT][function.region].groups.get(function.log_group)
        # The stream is missing if the role may not create it, or if the group was deleted
        # meanwhile.
        if group is None or stream not in group.streams:
            return
        if not self._is_allowed(function, "PutLogEvents", stream):
            return
        now = int(time.time() * 1000)
        lines = log.decode(errors="replace").splitlines()
        events = [{"timestamp": now, "message": line} for line in lines if line]
        if events:
            group.streams[stream].put_log_events(events)

    @staticmethod
    def _is_allowed(function: Function, operation: str, stream: str) -> bool:
        fields = {"logGroupName": function.log_group, "logStreamName": stream}
        target = f"Logs_20140328.{operation}"
        return check_json_call(function.role, "logs", function.region, target, fields) is None
