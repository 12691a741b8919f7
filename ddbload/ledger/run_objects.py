"""Objects of one run in a store: their names, their JSON, and their stamp."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from ddbload.contracts.control import (
    LIMITS_OF_PAYLOAD,
    Control,
    SeenWorker,
    WorkerProgress,
    silence_limit,
)
from ddbload.contracts.messages import decode_json, encode_json
from ddbload.contracts.results import Failure, Heartbeat, Report
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import RunRequest
from ddbload.errors import LedgerDamaged, RunNotFound
from ddbload.ledger.store import AgesPage, Store, change_state, read_state
from ddbload.records import Record

T = TypeVar("T")
_WORKERS = "progress/"
_STARTED = "started/"
"""Folder of the index of starts. Each run that begins leaves an empty object in it, named
`<milliseconds>-<run id>`, whose number counts down: one listing finds the newest. Run ids that
ddbload generates sort by time, those of uploads and users do not."""
_LAST_MILLISECOND = 10**14 - 1
FOLDER_PROGRESS_SECONDS, BUCKET_PROGRESS_SECONDS = 1.0, 5.0
"""Seconds between two writes of a worker's progress, for a ledger in a folder and in S3."""
_CONTROL_ADVICE = "delete it, and resume the run with the limits that it should have"


class LastReport(Record):
    """Last report of a ledger, and the version of its object."""

    report: Report | None
    """Report; None if missing or damaged."""
    version: str | None
    """Version for `put_report`; None if the report is missing."""


def newest_runs(store: Store, most: int | None = None) -> list[str]:
    """List run ids, newest first; at most `most`, in one request."""
    names = (name for page in store.pages(_STARTED) for name in page.ages)
    runs = (each.removeprefix(_STARTED).partition("-")[2] for each in islice(names, most))
    return list(dict.fromkeys(runs))


class RunObjects:
    """Objects below `runs/<run id>/`. Reading an invalid one raises `LedgerDamaged`."""

    def __init__(self, store: Store, run: str, record: RunRecord | None = None) -> None:
        """`record`: record of the run, if the caller has read it."""
        self.run = run
        self._store = store
        self._root = f"runs/{run}/"
        self._known_stamp = None if record is None else record.stamp
        self.asked_now = False
        """True if this object has written the first request of the run."""

    @property
    def in_bucket(self) -> bool:
        """True for a ledger in S3, where requests are slower and billed."""
        return self._store.uri("").startswith("s3://")

    def put_request(self, request: RunRequest) -> None:
        """Write the run's request, replacing an earlier one of a run without a record."""
        self._put("request.json", request.to_json())

    def put_new_request(self, request: RunRequest) -> bool:
        """Write the first request of the run; return whether there was none before."""
        self.asked_now = self._put_new("request.json", request.to_json())
        return self.asked_now

    def find_request(self) -> RunRequest | None:
        """Read the run's request; None if missing."""
        return self._read("request.json", RunRequest.from_json)

    def put_start(self, created: float) -> None:
        """Enter the run in the index of starts. If it is entered twice, the later time counts."""
        self._store.put(f"{_STARTED}{_LAST_MILLISECOND - int(created * 1000):014d}-{self.run}", b"")

    def keep_failure(self, failure: Failure) -> None:
        """Write why the run ended before it had a record; do nothing once it has one."""
        request = self.find_request()
        if request is not None and request.failure is None and self.find_record() is None:
            self.put_request(replace(request, failure=failure))

    def find_record(self) -> RunRecord | None:
        """Read the run's record; None if the run never began."""
        record = self._read("run.json", RunRecord.from_json)
        if record is None:
            return None
        if record.run != self.run:
            raise LedgerDamaged(
                f"{self._uri('run.json')} is that of run {record.run}; start a new run (another run"
                " id)"
            )
        self._known_stamp = record.stamp
        return record

    def record(self) -> RunRecord:
        """Read the run's record. Raises `RunNotFound`."""
        record = self.find_record()
        if record is None:
            where = self._store.uri("runs")
            raise RunNotFound(
                f"there is no run {self.run} in the ledger at {where}; ddbload runs lists those"
                " there are"
            )
        return record

    def put_new_record(self, record: RunRecord) -> bool:
        """Write the record of a new run; return false if the run has one.

        If two runs with the same id begin at the same time, only one succeeds.
        """
        written = self._put_new("run.json", record.to_json())
        if written:
            self._known_stamp = record.stamp
        return written

    def put_record(self, record: RunRecord) -> None:
        """Replace the record of a run."""
        self._put("run.json", record.to_json())

    def put_report(self, report: Report, over: LastReport) -> bool:
        """Write the report unless it changed since `over` was read; return true if written."""
        name = self._root + "report.json"
        return self._store.put_over(name, encode_json(report.to_json()), over.version)

    def last_report(self) -> LastReport:
        """Read the last report and its version.

        A damaged report counts as missing: the segments prove the run.
        """
        found = self._store.get_version(self._root + "report.json")
        if found is None:
            return LastReport(None, None)
        try:
            report = self._decode(self._root + "report.json", found.data, Report.from_json)
        except LedgerDamaged:
            return LastReport(None, found.version)
        return LastReport(report, found.version)

    def find_report(self) -> Report | None:
        """Read the last report; None if missing or damaged."""
        with suppress(LedgerDamaged):
            return self._read("report.json", Report.from_json)
        return None

    def put_page(self, page: str, report: Report) -> None:
        """Write the page of a report, unless another report was written since.

        Each writer of a report writes its page afterwards, so the last page belongs to the last
        report.
        """
        name = self._root + "report.html"
        while True:
            found = self._store.get_version(name)
            last = self.find_report()
            if last != report:
                return
            version = None if found is None else found.version
            if self._store.put_over(name, page.encode(), version):
                return

    # The run.

    def put_execution(self, arn: str) -> None:
        """Write the ARN of the run's current execution."""
        self._put("execution.json", {"execution": arn})

    def find_execution(self) -> str | None:
        """Read the ARN of the run's last execution; None for a local run.

        The request names the first one.
        """
        found = self._read("execution.json", lambda value: str(value["execution"]))
        if found is None and (request := self.find_request()) is not None:
            return request.execution
        return found

    def put_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Replace the heartbeat of a local run."""
        self._put("progress.json", heartbeat.to_json())

    def find_heartbeat(self) -> Heartbeat | None:
        """Read the last heartbeat of a local run; None if missing or damaged."""
        with suppress(LedgerDamaged):
            return self._read("progress.json", Heartbeat.from_json)
        return None

    # Control and progress.

    def change_control(self, change: Callable[[Control | None], Control | None]) -> Control | None:
        """Replace the limits in force by the result of `change`.

        `change` receives None if the payload's limits are in force, and returns None to restore
        them. It is called again if another write came first, so that no change is overwritten
        unseen. Raises `LedgerDamaged`, the errors of `change`, and `ServiceUnavailable` after too
        many attempts.
        """
        after: Control | None = None

        def change_found(found: Control | None) -> Control | None:
            nonlocal after
            before = _in_force(found)
            after = change(before)
            return None if after == before else after or Control(LIMITS_OF_PAYLOAD)

        name = self._root + "control.json"
        change_state(self._store, name, Control, change_found, advice=_CONTROL_ADVICE)
        return after

    def find_control(self) -> Control | None:
        """Read the limits in force; None if those of the payload are.

        Raises `LedgerDamaged` for unreadable limits, because guessing could exceed them.
        """
        name = self._root + "control.json"
        return _in_force(read_state(self._store, name, Control, advice=_CONTROL_ADVICE))

    @property
    def is_cancelled(self) -> bool:
        """True if the run was cancelled."""
        control = self.find_control()
        return control is not None and control.cancelled

    def put_worker(self, progress: WorkerProgress, earlier: WorkerProgress | None) -> None:
        """Write the progress of a worker, and delete its previous one."""
        self._store.put(f"{self._root}{_WORKERS}{progress.to_name()}", b"")
        if earlier is not None:
            self._store.delete(f"{self._root}{_WORKERS}{earlier.to_name()}")

    def workers(self) -> list[SeenWorker]:
        """List all workers that the run ever had, with their last progress, in one listing."""
        last: dict[str, tuple[WorkerProgress, float]] = {}
        folder = self._root + _WORKERS
        for name, age in sorted(self._store.ages(folder).items()):
            progress = WorkerProgress.from_name(name.removeprefix(folder))
            # Sorted by worker, then by number; the last one is valid.
            if progress is not None:
                last[progress.worker] = progress, age
        silent = silence_limit(self.progress_seconds, [age for _, age in last.values()])
        return [SeenWorker(progress, age, age <= silent) for progress, age in last.values()]

    @property
    def progress_seconds(self) -> float:
        """Seconds between two writes of a worker's progress, with few workers."""
        return BUCKET_PROGRESS_SECONDS if self.in_bucket else FOLDER_PROGRESS_SECONDS

    def page(self, folder: str, after: str = "") -> AgesPage:
        """List a page of the names in a folder of the run, relative to it, in one request."""
        return self._store.page(f"{self._root}{folder}/", after)

    @property
    def _stamp(self) -> dict[str, str]:
        if self._known_stamp is None:
            self._known_stamp = self.record().stamp
        return self._known_stamp

    def _owned(self, name: str, decode: Callable[[dict[str, Any]], T]) -> Callable[[Any], T]:
        """Return a decoder that checks an object's stamp. It raises `LedgerDamaged`."""
        # Read the record before decoding, because an error of the store does not mean a damaged
        # object.
        stamp = self._stamp

        def decode_own(value: Any) -> T:
            fields = dict(value)
            carried = {
                each: fields.pop(each) for each in ("run", "configuration") if each in fields
            }
            decoded = decode(fields)
            self._require_own(name, carried == stamp)
            return decoded

        return decode_own

    def _require_own(self, name: str, is_own: bool) -> None:
        if not is_own:
            raise LedgerDamaged(
                f"{self._uri(name)} was not written by this run: it belongs to another one, or to"
                " one with another source, table or reading of it; start a new run (another run id)"
            )

    def _uri(self, name: str) -> str:
        return self._store.uri(self._root + name)

    def _read(self, name: str, decode: Callable[[Any], T]) -> T | None:
        data = self._store.get(self._root + name)
        return None if data is None else self._decode(self._root + name, data, decode)

    def _read_own(self, name: str, decode: Callable[[Any], T]) -> T | None:
        """Read an object with the run's stamp. Raises `LedgerDamaged` for another stamp."""
        return self._read(name, self._owned(name, decode))

    def _decode(self, name: str, data: bytes, decode: Callable[[Any], T]) -> T:
        advice = "start a new run (another run id)"
        return decode_json(self._store.uri(name), data, decode, advice)

    def _put(self, name: str, value: object) -> None:
        self._store.put(self._root + name, encode_json(value))

    def _put_new(self, name: str, value: object) -> bool:
        return self._store.put_new(self._root + name, encode_json(value))


def _in_force(control: Control | None) -> Control | None:
    return None if control is None or control.state == LIMITS_OF_PAYLOAD else control
