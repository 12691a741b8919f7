"""Keep the environments of each function: reuse warm ones, start cold ones on demand."""

from __future__ import annotations

import hashlib
import io
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Iterable
from pathlib import Path

from localaws.functions.function import Function, Outcome
from localaws.functions.worker import SharedResources, Worker


class Pool:
    """Environments of one function. At most `concurrency` are busy; further callers wait."""

    def __init__(self, function: Function, concurrency: int, shared: SharedResources) -> None:
        self.function = function
        self._shared = shared
        self._slots = threading.Semaphore(concurrency)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._closed = False
        self.cold_starts = 0

    def invoke(self, payload: bytes) -> Outcome:
        with self._slots:
            worker = self._acquire()
            outcome = worker.invoke(payload)
            self._release(worker)
            return outcome

    def close(self) -> None:
        """End idle environments now, and busy ones after their current event."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._all.difference_update(idle)
        for worker in idle:
            worker.close()

    def kill(self) -> None:
        """End all environments now."""
        self.close()
        with self._lock:
            workers, self._all = self._all, set()
        for worker in workers:
            worker.close()

    def _acquire(self) -> Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            self.cold_starts += 1
            code = self._unpack_code()
            layers = self._unpack_layers(code)
        worker = Worker(self.function, code, layers, self._shared)
        with self._lock:
            self._all.add(worker)
        return worker

    def _release(self, worker: Worker) -> None:
        with self._lock:
            if worker.usable and not self._closed:
                self._idle.append(worker)
                return
            self._all.discard(worker)
        worker.close()

    def _unpack_code(self) -> Path:
        """Unpack the function's code once, into a folder shared by its environments."""
        key = hashlib.sha256((self.function.arn + self.function.code_hash).encode()).hexdigest()
        folder = self._shared.work_folder / f"code-{key[:16]}"
        if not folder.is_dir():
            unpack([self.function.code], folder)
        return folder

    def _unpack_layers(self, code: Path) -> Path:
        """Unpack the function's layers once, later ones over earlier ones."""
        arns = "\n".join(layer.arn for layer in self.function.layers)
        # A folder beside the code, because a path below the code's would belong to the function.
        folder = code.with_name(f"{code.name}-{hashlib.sha256(arns.encode()).hexdigest()[:16]}")
        if not folder.is_dir():
            unpack([layer.archive for layer in self.function.layers], folder)
        return folder


def unpack(archives: Iterable[bytes], folder: Path) -> None:
    """Unpack archives, one over the other, into a folder that appears once it is complete.

    Pools of a function before and after a change may do this at the same time.
    """
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    for each in archives:
        with zipfile.ZipFile(io.BytesIO(each)) as archive:
            archive.extractall(partial)
    try:
        partial.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(partial)


class Pools:
    """Pools of all functions. A changed function gets a new pool."""

    def __init__(self, concurrency: int, shared: SharedResources) -> None:
        self._concurrency = concurrency
        self._shared = shared
        self._lock = threading.Lock()
        self._pools: dict[str, Pool] = {}

    def invoke(self, function: Function, payload: bytes) -> Outcome:
        return self._pool(function).invoke(payload)

    def kill(self) -> None:
        with self._lock:
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.kill()

    def _pool(self, function: Function) -> Pool:
        with self._lock:
            old = self._pools.get(function.arn)
            if old is not None and old.function == function:
                return old
            limit = self._concurrency
            if function.reserved is not None:
                limit = max(1, min(limit, function.reserved))
            pool = Pool(function, limit, self._shared)
            self._pools[function.arn] = pool
        if old is not None:
            old.close()
        return pool
