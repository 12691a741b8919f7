"""Objects of one run in a store: their names, their JSON, and the mark of the run in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ddbload.contracts.results import Report
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import RunRequest
from ddbload.errors import LedgerDamaged, RunNotFound
from ddbload.ledger.store import Store, decode_json, encode_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LastReport:
    """Report that a ledger has, and the version of its object."""

    report: Report | None
    """None if missing or damaged."""
    version: str | None
    """None if missing."""


class RunObjects:
    """Objects below `runs/<run id>/`. Reading raises `LedgerDamaged` for a wrong one."""

    def __init__(self, store: Store, run: str, record: RunRecord | None = None) -> None:
        """`record`: the run's, if the caller has read it."""
        self.run = run
        self._store = store
        self._root = f"runs/{run}/"
        self._known_stamp = None if record is None else record.stamp

    @property
    def in_bucket(self) -> bool:
        """True for a ledger in S3, where requests take longer and cost something."""
        return self._store.uri("").startswith("s3://")

    def put_request(self, request: RunRequest) -> None:
        """Write what was asked of the run, over an earlier request of a run without a record."""
        self._put("request.json", request.to_json())

    def find_request(self) -> RunRequest | None:
        """Read what was asked of the run; None if nothing was."""
        return self._read("request.json", RunRequest.from_json)

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
        """Write the record of a new run; False if the run has one.

        Of two runs that begin with the same id at the same time, only one succeeds.
        """
        written = self._put_new("run.json", record.to_json())
        if written:
            self._known_stamp = record.stamp
        return written

    def put_record(self, record: RunRecord) -> None:
        """Replace the record of a run."""
        self._put("run.json", record.to_json())

    def put_report(self, report: Report, over: LastReport) -> bool:
        """Write the report unless another was written since `over` was read; True if written."""
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
        return self.last_report().report

    def put_page(self, page: str, report: Report, attempts: int) -> None:
        """Write the page that shows a report, unless another report was written since.

        Each writer of a report then writes its page, so the last page is that of the last report.
        """
        name = self._root + "report.html"
        while True:
            found = self._store.get_version(name)
            last = self.find_report()
            if last != report:
                return
            version = None if found is None else found.version
            if self._store.put_over(name, page.encode(), version, attempts=attempts):
                return

    def _start_before(self, folder: str, byte: int) -> int | None:
        """Find the greatest number below `byte` that names an object of a folder."""
        names = self._store.names(self._root + folder)
        stems = (name.rpartition("/")[2].removesuffix(".json") for name in names)
        starts = (int(stem) for stem in stems if stem.isdecimal())
        return max((start for start in starts if start < byte), default=None)

    @property
    def _stamp(self) -> dict[str, str]:
        if self._known_stamp is None:
            self._known_stamp = self.record().stamp
        return self._known_stamp

    def _owned(self, name: str, decode: Callable[[dict[str, Any]], T]) -> Callable[[Any], T]:
        """Make a decoder of objects that carry the run's stamp. It raises `LedgerDamaged`."""
        # Read before decoding: an error of the store is not a damaged object.
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

    def _read_each(
        self, names: Sequence[str], decoder: Callable[[str], Callable[[Any], T]]
    ) -> list[T]:
        return [
            self._decode(name, data, decoder(name))
            for name, data in zip(names, self._store.get_all(names), strict=True)
            if data is not None
        ]

    def _decode(self, name: str, data: bytes, decode: Callable[[Any], T]) -> T:
        advice = "start a new run (another run id)"
        return decode_json(self._store.uri(name), data, decode, advice)

    def _put(self, name: str, value: object) -> None:
        self._store.put(self._root + name, encode_json(value))

    def _put_new(self, name: str, value: object) -> bool:
        return self._store.put_new(self._root + name, encode_json(value))
