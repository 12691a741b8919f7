"""Load, plan, verify and follow runs from Python.

Nothing is printed, no signal is handled, and no function ends the process. An error before the
first row is written is raised, as one of `ddbload.errors`; a run that has begun ends with a result,
whose `status` says how. The functions may be called from several threads, in notebooks, too.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypedDict, Unpack

from ddbload.aws.clients import AwsSettings
from ddbload.context import reading_context
from ddbload.contracts.control import NewLimits
from ddbload.contracts.payload import Payload, payload_of
from ddbload.contracts.results import DONE, Failure, Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.source import AUTO
from ddbload.errors import InvalidUsage, RunFailed, RunMismatch
from ddbload.items.transformed_rows import Transform
from ddbload.ledger.ledger import temporary_ledger
from ddbload.planning.make_plan import Sample, make_plan
from ddbload.planning.plan import Plan
from ddbload.runs.deployed import attempt_report
from ddbload.runs.local_runs import LocalSettings, default_engine, default_ledger
from ddbload.runs.progress import RunProgress
from ddbload.runs.python_source import Location, SourceOfRows, located, place_of
from ddbload.runs.retry_rejects import iter_rejects
from ddbload.runs.run_import import asked_for, new_run_id, run_import
from ddbload.runs.run_location import Deployed, find_deployed, find_run
from ddbload.runs.start_run import resume_here, resume_payload, start_again, start_run
from ddbload.steps.report import finished_report
from ddbload.verification.verify import Verdict, Verification, VerifySettings


class LoadOptions(TypedDict, total=False):
    """Options of a load, by the names of the command line; docs/options.md describes each."""

    format: str
    layout: str
    from_table: str
    delimiter: str
    dialect: str
    quote: str | None
    escape: str | None
    comment: str
    skip_lines: int
    header: bool
    columns: list[str]
    match: str
    duplicate_columns: str
    decimal: str
    thousands: str
    encoding: str
    compression: str
    max_expansion: int
    types: Mapping[str, str]
    infer_types: bool
    where: list[str]
    rename: Mapping[str, str]
    drop: list[str]
    set: Mapping[str, str]
    null: list[str]
    null_policy: str
    mode: str
    on_empty: str
    add: list[str]
    only_existing: bool
    condition: str
    position_attribute: str
    max_wcu: float | str
    max_cost: float
    unit_price: float
    require_backup: bool
    concurrency: int
    engine: str
    chunk_bytes: int
    scan: str
    max_rejects: int | str
    max_row_bytes: int


class AwsConnection(TypedDict, total=False):
    """AWS settings, which are otherwise found like those of the AWS CLI."""

    profile: str
    region: str
    endpoint_url: str
    """Endpoint of DynamoDB and S3."""
    requester_pays: bool


class LoadSettings(LoadOptions, AwsConnection, total=False):
    """Options of a load, and AWS settings."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run at one moment, or how it ended."""

    report: Report
    """Sums of the run: requests, write units, causes of rejects, failures of chunks."""

    @property
    def run(self) -> str:
        """Run id."""
        return self.report.run

    @property
    def status(self) -> str:
        """RUNNING, or how the run ended.

        SUCCEEDED, SUCCEEDED_WITH_REJECTS and ALREADY_LOADED are done; FAILED, INTERRUPTED and
        CANCELLED are not.
        """
        return self.report.status

    @property
    def rows(self) -> RowCounts:
        """Rows `read`, which are `written`, `rejected`, `superseded`, `skipped` or `filtered`."""
        return self.report.rows

    @property
    def uncertain(self) -> int:
        """Written rows whose item may have been there before, as after a lost answer."""
        return self.report.uncertain

    @property
    def error(self) -> Failure | None:
        """Name and message of the error that ended the run."""
        return self.report.error

    def raise_for_status(self) -> Self:
        """Return the result if the run is done, with or without rejects. Raises `RunFailed`."""
        if self.status in DONE:
            return self
        error = "" if self.error is None else f": {self.error.name}: {self.error.message}"
        raise RunFailed(f"run {self.run} is {self.status}{error}")


def load(
    source: SourceOfRows,
    table: str,
    *,
    run: str | None = None,
    ledger: str | None = None,
    once: bool = False,
    transform: Transform | None = None,
    transform_id: str | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    processes: int = 1,
    **settings: Unpack[LoadSettings],
) -> RunResult:
    """Import a source into a table from this machine.

    Args:
        source: A path, an s3:// URI, several of them, an open binary file, or an iterable of dicts
            of str, int, Decimal, float, bool, bytes, None, list, dict and set. The last two are
            copied to a temporary file first, and such a run cannot be resumed.
        table: Name of the table.
        run: Run id; that of an unfinished run resumes it. Generated by default.
        ledger: Folder or s3://bucket/prefix of the ledger; $DDBLOAD_LEDGER, or
            ~/.local/state/ddbload by default.
        once: Skip objects that were loaded into this table before.
        transform: Function of a row: a dict of str, Decimal, bool, bytes, None, list, dict and set,
            after the mapping. It returns the row to write, or None to leave it out (`filtered`); an
            exception rejects the row, with cause `transform`. It must depend on the row alone: it
            is called twice with the first 100 rows. The key attributes must be in the row before
            it, too.
        transform_id: Identity of the function beside its source, such as a version. Required if it
            has no source. Without it closures and functions that it calls are not compared.
        on_progress: Called with the progress when it changes; an exception stops the run, which can
            be resumed, and is raised.
        processes: Worker processes; 1 with a transform.
        settings: Options of a load, and AWS settings.

    Raises:
        DdbloadError: If nothing was written, because the source or the table was refused.
        InvalidPayload: If options are wrong or contradict each other.
        TransformNotDeterministic: If two calls with one row have two results.
    """
    aws, options = _split(settings)
    if transform is not None and processes != 1:
        raise InvalidUsage("a transform runs in this process: leave out processes")
    name = run or new_run_id()
    with located(source) as (place, is_stream):
        if once and is_stream:
            raise InvalidUsage("once knows files and objects, and the source is a stream")
        payload = payload_of(place, table, options, run=name, workers=processes)
        payload["run"]["once"] = once
        payload["transform"] = _identity(transform, transform_id)
        if "engine" not in options:
            del payload["options"]["engine"]
        return _import(payload, name, ledger, aws, transform, on_progress, processes)


def resume(
    run: str,
    *,
    transform: Transform | None = None,
    transform_id: str | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    ledger: str | None = None,
    stack: str | None = None,
    processes: int = 1,
    **aws: Unpack[AwsConnection],
) -> RunResult:
    """Import the rows that a run has not imported yet, and wait for its end.

    Args:
        run: Run id.
        transform: The same function that the run began with.
        transform_id: The same as the run began with.
        on_progress: As for `load`.
        ledger: Ledger of the run; the default ledger, then the stack, are looked at by default.
        stack: Name of the deployed stack.
        processes: Worker processes, for a run of this machine.
        aws: AWS settings.

    Raises:
        RunMismatch: If the run began with another function, or with one and none is given.
        RunNotFound: If neither ledger nor stack knows the run.
        SourceNotFound: If the source was an open file or dicts.
    """
    place = AwsSettings(**aws)
    there = find_run(run, ledger, stack, place)
    done = finished_report(run, there.context)
    if done is not None:
        return RunResult(done)
    if isinstance(there, Deployed):
        arn = start_again(run, resume_payload(run, {}, there), there, NewLimits())
        return _followed(run, arn, there, on_progress)
    payload = resume_here(run, {"workers": processes}, there)
    if payload.transform != _identity(transform, transform_id):
        raise RunMismatch(
            f"run {run} began {'without a' if payload.transform is None else 'with another'}"
            " transform: give the same function and transform_id, or load the source anew"
        )
    return _import(payload.to_json(), run, ledger, place, transform, on_progress, processes)


def status(
    run: str, *, ledger: str | None = None, stack: str | None = None, **aws: Unpack[AwsConnection]
) -> RunResult:
    """Return whether a run is running, and its progress. Raises `RunNotFound`."""
    return RunResult(find_run(run, ledger, stack, AwsSettings(**aws)).read(run).report)


def rejects(
    run: str, *, ledger: str | None = None, stack: str | None = None, **aws: Unpack[AwsConnection]
) -> Iterator[dict[str, Any]]:
    """Iterate over a run's rejected rows: `line`, `byte`, `column`, `cause`, `detail` and `raw`."""
    return map(
        json.loads, iter_rejects(run, find_run(run, ledger, stack, AwsSettings(**aws)).context)
    )


def start(
    source: Location | Iterable[Location],
    table: str,
    *,
    run: str | None = None,
    stack: str | None = None,
    once: bool = False,
    workers: int | str = AUTO,
    wait: bool = True,
    on_progress: Callable[[RunProgress], None] | None = None,
    **settings: Unpack[LoadSettings],
) -> RunResult:
    """Import S3 objects on the deployed stack.

    Args:
        source: One or several s3:// URIs.
        table: Name of the table.
        run: Run id.
        stack: Name of the stack; $DDBLOAD_STACK, or `ddbload` by default.
        once: Skip objects that were loaded into this table before.
        workers: Chunks imported at once.
        wait: Wait for the end of the run; else return it as RUNNING.
        on_progress: As for `load`; an exception does not stop the run.
        settings: Options of a load, and AWS settings.

    Raises:
        StackNotFound: If there is no such stack.
        ExecutionExists: If a run of this id was started before.
        InvalidPayload: If options are wrong or contradict each other.
    """
    aws, options = _split(settings)
    place = place_of(source)
    name = run or new_run_id()
    payload = payload_of(place, table, options, run=name, workers=workers)
    payload["run"]["once"] = once
    if not all(each.startswith("s3://") for each in Payload.from_json(payload).source.names):
        raise InvalidUsage("the stack reads s3://bucket/key: upload the file, or use load")
    there = find_deployed(stack, aws)
    arn = start_run(name, payload, there)
    return _followed(name, arn, there, on_progress) if wait else RunResult(Report(name, "RUNNING"))


def plan(
    source: SourceOfRows,
    table: str,
    *,
    sample: int | None = None,
    processes: int = 1,
    **settings: Unpack[LoadSettings],
) -> Plan:
    """Check a source and estimate its import, without writing.

    `status` of the plan is FINE, REJECTS or FAILS, `error` what would fail the import, and
    `to_json()` all figures. `sample`: read so many rows only, and estimate the rest. Raises
    `InvalidPayload`.
    """
    aws, options = _split(settings)
    with located(source) as (place, _):
        return make_plan(
            payload_of(place, table, options),
            reading_context(aws),
            sample=None if sample is None else Sample(rows=sample),
            processes=processes,
            make_context=partial(reading_context, aws),
        )


def verify(
    source: SourceOfRows,
    table: str,
    *,
    sample: float | None = None,
    ignore: Iterable[str] = (),
    ignore_extra_attributes: bool = False,
    max_dollars: float = 0.10,
    processes: int = 1,
    **settings: Unpack[LoadSettings],
) -> Verdict:
    """Compare the items of a source with those of a table, without writing to it.

    `keys` of the verdict has the counts: `equal`, `missing`, `different`, `extra`, and
    `are_equal`. Rows become items as by `load`, without a transform.

    Args:
        source: As for `load`.
        table: Name of the table.
        sample: Look up so many keys (int), or this share of them (float from 0 to 1); scan the
            table by default.
        ignore: Attributes that are not compared.
        ignore_extra_attributes: Compare only attributes that a row has.
        max_dollars: Most that reading the table may cost.
        processes: Processes that read the source.
        settings: Options of a load, and AWS settings.

    Raises:
        InvalidUsage: If reading the table costs more than `max_dollars`.
        DdbloadError: If they cannot be compared.
    """
    aws, options = _split(settings)
    rules = VerifySettings(sample, frozenset(ignore), ignore_extra_attributes)
    verdict = Verdict()
    with located(source) as (place, _), temporary_ledger() as ledger:
        payload = Payload.from_json(payload_of(place, table, options))
        comparison = Verification(payload, rules, ledger, reading_context(aws))
        estimate = comparison.estimate
        if estimate.dollars > max_dollars:
            text = estimate.text(table, consistent=rules.consistent)
            raise InvalidUsage(f"{text}: give max_dollars, or a sample")
        comparison.run(
            *(verdict, None),
            most_units=max(estimate.units, estimate.units_for(max_dollars)),
            processes=processes,
            make_context=partial(reading_context, aws),
        )
    return verdict


def _split(settings: Mapping[str, Any]) -> tuple[AwsSettings, dict[str, Any]]:
    """Return the AWS settings, and the options of a load."""
    of_aws = AwsConnection.__annotations__.keys() & settings.keys()
    aws = AwsSettings(**{name: settings[name] for name in of_aws})
    return aws, {name: value for name, value in settings.items() if name not in of_aws}


def _import(
    payload: dict[str, Any],
    run: str,
    ledger: str | None,
    aws: AwsSettings,
    transform: Transform | None,
    on_progress: Callable[[RunProgress], None] | None,
    processes: int,
) -> RunResult:
    concurrency = Payload.from_json(payload).options.concurrency
    settings = LocalSettings(ledger or default_ledger(), aws, concurrency)
    clients = settings.clients()
    if "engine" not in payload["options"]:
        payload["options"]["engine"] = default_engine(clients)
    raised: list[BaseException] = []

    def watch(progress: RunProgress) -> None:
        if on_progress is not None and not raised:
            try:
                on_progress(progress)
            except BaseException as error:  # noqa: BLE001 - raised again once the run has stopped
                raised.append(error)

    with asked_for(payload, settings, run, clients):
        ended = run_import(
            *(payload, settings),
            run=run,
            processes=processes,
            should_stop=lambda: bool(raised),
            watch=watch,
            clients=clients,
            transform=transform,
        )
    if raised:
        raise raised[0]
    return RunResult(ended.report)


def _followed(
    run: str, arn: str, there: Deployed, on_progress: Callable[[RunProgress], None] | None
) -> RunResult:
    execution = there.follow(run, arn, on_progress or (lambda _: None))
    return RunResult(attempt_report(run, execution, there.context))


def _identity(transform: Transform | None, transform_id: str | None) -> str | None:
    """Return the identity of a function: the hash of its source and of `transform_id`."""
    if transform is None:
        return None
    try:
        text = textwrap.dedent(inspect.getsource(transform))
    except (OSError, TypeError):
        if transform_id is None:
            raise InvalidUsage(
                "the transform has no source that Python can read: give transform_id, a text that"
                " changes when the function does"
            ) from None
        text = ""
    return hashlib.sha256(f"{text}\n{transform_id or ''}".encode()).hexdigest()
