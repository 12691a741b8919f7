"""Write a run's page: one file of HTML and SVG, without scripts or requests."""

from __future__ import annotations

from collections.abc import Sequence

from ddbload.context import Context
from ddbload.contracts import results
from ddbload.contracts.control import Control
from ddbload.contracts.results import Report, Segment
from ddbload.contracts.run_record import RunRecord, amount_text
from ddbload.dynamodb.modes import mode_of
from ddbload.errors import DdbloadError, is_resumable, unexpected
from ddbload.ledger.counted_chunks import CountedChunks
from ddbload.ledger.ledger import Ledger
from ddbload.records import Record
from ddbload.report_page.marks import Panel, rates_chart, work_chart
from ddbload.report_page.markup import (
    Content,
    Markup,
    TableRow,
    data,
    document,
    duration_text,
    element,
    facts_table,
    legend,
    muted,
    section,
    short,
    table,
    tile,
    utc_text,
)
from ddbload.report_page.reject_causes import RejectTally
from ddbload.report_page.timeline import LIMIT_SECONDS, Timeline, make_timeline

PAGE_SECONDS = 60.0
"""Seconds that must be left to write `report.html`: for drawing it, and some attempts."""
MAX_MESSAGE = 2000
"""Maximum characters of an error message on the page."""
MAX_FAILURES_SHOWN = 50
MAX_GROUPS_SHOWN = 30
_THROTTLED_SHARE = 0.1
"""Share of throttled requests above which the page names the table as the bottleneck."""
_GUIDE = "https://github.com/ddbload/ddbload/blob/main/docs/"
_STATUS_CLASSES = {results.SUCCEEDED: "good", results.ALREADY_LOADED: "good", results.FAILED: "bad"}
_VERSION = ("version_id", "etag", "sha256")
"""Fields that pin the version of objects; a local file has its time of modification."""


class RunFacts(Record):
    """Contents of a run's ledger at one moment."""

    report: Report
    record: RunRecord | None
    """Record of the run; None if the run ended before it was written."""
    now: float
    """Seconds since the epoch."""
    control: Control | None = None
    """Changed limits or a request to stop; None without either."""
    chains: Sequence[Sequence[Segment]] | None = ()
    """Counted segments of each chunk; None if there are too many to draw."""
    rejects: RejectTally | None = None

    @property
    def limits(self) -> Control | None:
        """Limits in force at the end."""
        if self.control is not None or self.record is None:
            return self.control
        return Control.of(self.record.payload.options)


def run_page(report: Report, context: Context, *, show_rows: bool = False) -> str:
    """Draw the page of a run again, with the status of this report; `report.html` is not changed.

    With `show_rows`, rejected rows are not masked. Raises the errors of reading the ledger.
    """
    ledger = context.ledger(report.run)
    record = ledger.find_record()
    if record is None:
        return draw_page(RunFacts(report, None, context.now()))
    found = CountedChunks(ledger.find_manifest(), keeps=True)
    tally = RejectTally(record, show_rows=show_rows)
    # The report mentions damaged rejects; the page shows those that can be read.
    found.add_all(ledger, tally.add)
    control = ledger.find_control()
    return draw_page(RunFacts(report, record, context.now(), control, found.chains, tally))


def put_page(
    report: Report,
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    found: CountedChunks,
    tally: RejectTally,
) -> None:
    """Write `report.html` if there is time. A failure becomes a notice, and never fails the run."""
    try:
        if context.clock() + PAGE_SECONDS < context.deadline:
            control = ledger.find_control()
            facts = RunFacts(report, record, context.now(), control, found.chains, tally)
            ledger.put_page(draw_page(facts), report)
    except Exception as error:  # noqa: BLE001 - nothing about the page may fail a run
        failure = (
            error if isinstance(error, DdbloadError) else unexpected(error, "drawing the page")
        )
        if context.notice is not None:
            context.notice(f"report.html was not written: {failure.name}: {failure.message}")


def draw_page(facts: RunFacts) -> str:
    """Return the text of the page."""
    limited = facts.limits is not None and facts.limits.max_wcu is not None
    timeline = make_timeline(facts.chains or (), facts.report.failures, limited=limited)
    guide = element("a", "What this page shows", href=f"{_GUIDE}report.md", rel="noreferrer")
    return document(
        f"{facts.report.run}: {facts.report.status}",
        _head(facts),
        _error(facts),
        _warnings(facts),
        _rows(facts),
        _speed(facts, timeline),
        _work(facts, timeline),
        _chunks(facts, timeline),
        _rejects(facts),
        _cost(facts),
        _source(facts),
        element("footer", element("p", f"Written by ddbload, {utc_text(facts.now)}. ", guide)),
    )


def _head(facts: RunFacts) -> Markup:
    report, record = facts.report, facts.record
    kind = _STATUS_CLASSES.get(report.status, "warn")
    title: Content = ["Run ", data(report.run)]
    began: Content = None
    if record is not None:
        purpose = " (deletes keys)" if record.mode.deletes else None
        purpose = purpose if record.mode.writes else " (plan: nothing is sent)"
        title = [data(record.payload.source.uri), " → ", data(record.table.name), purpose]
        run = element("code", data(report.run))
        began = ["run ", run, f", begun {utc_text(record.created)}, "]
    return element(
        "header",
        element("span", data(report.status), class_=f"status {kind}"),
        element("h1", title),
        element("p", began, f"took {duration_text(report.seconds)}", class_="sub"),
    )


def _error(facts: RunFacts) -> Markup | None:
    report, error = facts.report, facts.report.error
    if error is None:
        return None
    resume = None
    link = element("a", "troubleshooting", href=f"{_GUIDE}troubleshooting.md", rel="noreferrer")
    chunk = None if error.chunk is None else f" (chunk {error.chunk:,})"
    if facts.record is not None and report.status not in results.DONE and is_resumable(error.name):
        command = element("code", "ddbload resume ", data(report.run))
        resume = element("p", "Once the cause is removed: ", command)
    return element(
        "section",
        element("p", element("span", data(error.name), chunk, class_="name bad")),
        element("p", data(error.message, MAX_MESSAGE)),
        resume,
        element("p", "More about this error: ", link, ".", class_="muted"),
        class_="box bad",
        aria_label="Error",
    )


def _warnings(facts: RunFacts) -> Markup | None:
    """Show warnings that a reader could overlook among the figures."""
    report, loaded = facts.report, facts.report.loaded_before
    texts: list[str] = []
    if loaded is not None:
        what = "nothing was left to load" if report.status == results.ALREADY_LOADED else "left out"
        texts.append(f"{what}: the table had loaded {loaded.text}")
    if report.uncertain:
        texts.append(report.written_text)
    if report.repeated:
        texts.append(results.repeated_keys(report.repeated))
    mode = mode_of(report.mode)
    if report.rows.skipped and mode.writes:
        same = "" if report.identical is None else f"; {report.identical:,} items are identical"
        texts.append(f"{report.rows.skipped:,} rows were skipped because {mode.skip_reason}{same}")
    if facts.chains is None:
        texts.append("the charts of workers and chunks are left out: too many segments")
    throttled = report.work.throttled / max(1, report.work.requests)
    if throttled > _THROTTLED_SHARE:
        limit = "the table's write capacity, or that of single partitions, limited the speed"
        texts.append(f"{throttled:.0%} of the requests were throttled: {limit}")
    items = element("ul", [element("li", each) for each in texts])
    box = element("section", items, class_="box warn", aria_label="Warnings")
    return box if texts else None


def _rows(facts: RunFacts) -> Markup | None:
    """Show the counts of rows as a sum."""
    if facts.record is None:
        return None
    rows = facts.report.rows
    parts: list[Content] = [tile(f"{rows.read:,}", "rows read")]
    for _, count, word in rows.shown(facts.report.mode):
        sign = element("span", "+" if len(parts) > 1 else "=", class_="sign")
        parts += [sign, tile(f"{count:,}", word)]
    says, kind = "Every row that was read is accounted for.", "good"
    if not rows.conserved:
        says, kind = "The counts do not add up: please report it.", "bad"
    elif not rows.read:
        says, kind = "No row was read.", "muted"
    return section("Rows", element("div", parts, class_="law"), element("p", says, class_=kind))


def _speed(facts: RunFacts, timeline: Timeline | None) -> Markup | None:
    """Show the write rate, on average and over time."""
    report = facts.report
    if timeline is None and not report.rows.read:
        return None
    seconds = report.seconds if timeline is None else timeline.axis.seconds
    tiles = [
        tile(duration_text(seconds), "of work"),
        tile(f"{short(report.rows.read / max(seconds, 0.001))}/s", "rows, on average"),
        tile(f"{short(report.bytes)}B", "of the source"),
        tile(f"{report.work.requests:,}", "requests"),
        tile(f"{report.work.throttled:,}", "throttled"),
        tile(f"{report.work.retries:,}", "repeated"),
    ]
    charts = None if timeline is None else _rates(facts, timeline)
    return section("Speed", element("div", tiles, class_="tiles"), charts)


def _rates(facts: RunFacts, timeline: Timeline) -> list[Content]:
    axis = timeline.axis
    limit = None if facts.limits is None else facts.limits.max_wcu
    lengths = [ended - began for began, ended in timeline.windows]
    notes = [
        f"Times are UTC, from {utc_text(axis.began)} to {utc_text(axis.ended)}.",
        f"Each bar is the average of {duration_text(max(lengths))}.",
    ]
    title, line = "Write units per second", None
    if limit is not None:
        title += f" (limit {limit:,.0f})"
        if min(lengths) < LIMIT_SECONDS:
            notes.append(f"The limit holds over {LIMIT_SECONDS:.0f} s; shorter work has no line.")
        elif facts.record is not None and limit == facts.record.payload.options.max_wcu:
            # Only a limit that was in force from the beginning is drawn.
            line = limit
    panels: list[Panel] = [("Rows per second", timeline.rows, "rate-rows", None)]
    if any(timeline.units):
        panels.append((title, timeline.units, "rate-units", line))
    if any(timeline.throttled):
        title = "Throttled requests per second"
        panels.append((title, timeline.throttled, "rate-throttled", None))
    if len(axis.periods) > 1:
        notes.append("Pauses are cut short; they are the dashed areas.")
    return [rates_chart(timeline, panels), muted(" ".join(notes))]


def _work(facts: RunFacts, timeline: Timeline | None) -> Markup | None:
    """Show which worker imported which chunk, and when."""
    if timeline is None:
        return None
    kinds = [("first", "first invocation on a chunk"), ("more", "continuation of a chunk")]
    if facts.report.failures:
        kinds.append(("failed", "last invocation on a chunk that failed"))
    note = "A worker is a process, or an environment of the function."
    workers = len(timeline.lane_of)
    if workers > timeline.lanes:
        note += f" {workers:,} workers share {timeline.lanes} lanes."
    return section("Workers", work_chart(timeline), legend(kinds), muted(note))


def _chunks(facts: RunFacts, timeline: Timeline | None) -> Markup | None:
    """Show how many chunks are imported, and the errors of failed ones."""
    report = facts.report
    if not facts.chains:
        return None
    text = f"{report.chunks_done:,} of {report.chunks:,} chunks imported"
    if timeline is not None:
        count = timeline.invocations
        text += ", by 1 invocation" if count == 1 else f", by {count:,} invocations"
    rows = [
        (
            "-" if each.chunk is None else f"{each.chunk:,}",
            "not known" if each.at is None else utc_text(each.at),
            data(each.name),
            data(each.message),
        )
        for each in report.failures[:MAX_FAILURES_SHOWN]
    ]
    caption = _caption("failed chunks", len(rows), len(report.failures))
    head = ("Chunk", "When", "Error", "Message")
    failures = table(caption, head, rows, numbers=[0]) if rows else None
    return section("Chunks", element("p", f"{text}."), failures)


def _caption(what: str, shown: int, total: int) -> str:
    """Return a caption that states whether a table is complete."""
    return what.capitalize() if shown == total else f"The first {shown:,} of {total:,} {what}"


def _rejects(facts: RunFacts) -> Markup | None:
    """Show rejects by cause and column, with examples."""
    tally = facts.rejects
    if tally is None or not facts.report.rows.rejected:
        return None
    groups = tally.groups[:MAX_GROUPS_SHOWN]
    rows: list[TableRow] = []
    for group in groups:
        column = None if group.column is None else data(group.column, 120)
        head: list[Content] = [f"{group.rows:,}", data(group.cause), column]
        for each in group.examples:
            rows.append((*head, *each))
            head = [None, None, None]
    caption = _caption("causes", len(groups), len(tally.groups))
    if tally.masked:
        caption += (
            ". Rows are masked (x is a letter, 9 a digit, · anything else); ddbload report RUN"
            " --html FILE --show-rows shows them"
        )
    names = ("Rows", "Cause", "Column", "Line", "Byte", "Why", "Row")
    others = facts.report.rows.rejected - tally.counted
    note = muted(f"{others:,} more rejects were not read for this page.") if others > 0 else None
    shown = table(caption, names, rows, numbers=[0, 3, 4])
    return section("Rejects", shown, note)


def _cost(facts: RunFacts) -> Markup | None:
    """Show the write units and their price."""
    report, price = facts.report, None if facts.record is None else facts.record.write_price
    if not report.work.requests:
        return None
    units = report.work.consumed_wcu
    each = f"{units / max(1, report.rows.written):,.2f}"
    figures: list[TableRow] = [
        ("Write units, indexes included", f"{units:,.0f}"),
        (f"Write units for each {mode_of(report.mode).written} row", each),
    ]
    if price is not None:
        dollars = f"{amount_text(price.dollars(units))}, at " if price.dollars_per_million else None
        figures.append(("Price", [dollars, data(price.text)]))
    return section("Write units and cost", facts_table(figures))


def _source(facts: RunFacts) -> Markup | None:
    """Show the source's version and format, the table, and the limits at the end."""
    record, limits = facts.record, facts.limits
    if record is None or limits is None:
        return None
    source, table_, options = record.payload.source, record.table, record.payload.options
    how = f"{source.format}, {source.encoding}, compression {source.compression}"
    if source.kind.has_columns:
        how += f", delimiter {source.delimiter!r}, quote {source.quote!r}"
    version = [f"{name} {record.pinned[name]}" for name in _VERSION if record.pinned.get(name)]
    if isinstance(modified := record.pinned.get("mtime_ns"), int):
        version.append(f"modified {utc_text(modified / 1e9)}")
    rows: list[TableRow] = [
        ("Source", data(source.uri)),
        ("Version", data(", ".join(version))),
        ("Size", "known only by reading" if record.size is None else f"{record.size:,} bytes"),
        ("Format", data(how)),
        (f"Columns ({len(record.columns):,})", data(", ".join(record.columns), MAX_MESSAGE)),
        ("Table", [data(table_.name), " (id ", data(table_.id), ")"]),
        ("Keys", data(", ".join(f"{key.name} ({key.type})" for key in table_.keys))),
        ("Mode", options.mode),
        ("Write units a second (max_wcu)", _limit(limits.max_wcu)),
        ("Dollars of write units (max_cost)", _limit(limits.max_cost, "$")),
        ("Rejects (max_rejects)", str(options.reject_limit)),
        ("Workers", f"{record.workers:,}"),
    ]
    return section("Source, table and limits", facts_table(rows))


def _limit(value: float | None, sign: str = "") -> str:
    return "none" if value is None else f"{sign}{value:,.12g}"
