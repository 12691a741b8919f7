"""Sections of the page: rows, speed, workers, chunks, rejects, cost, source and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ddbload.contracts.control import Control
from ddbload.contracts.options import EDGES, WHOLE
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.write_price import amount_text
from ddbload.dynamodb.write_modes import written_word
from ddbload.pipeline.report_page.charts import (
    Panel,
    chunks_chart,
    duration_text,
    outcome_bar,
    rates_chart,
    short,
    work_chart,
)
from ddbload.pipeline.report_page.markup import Content, Markup, data, element
from ddbload.pipeline.report_page.parts import (
    TableRow,
    facts_table,
    legend,
    section,
    shown_of,
    size_text,
    table,
    tile,
    utc_text,
)
from ddbload.pipeline.report_page.reject_causes import RejectGroup, RejectTally
from ddbload.pipeline.report_page.run_facts import RunFacts
from ddbload.pipeline.report_page.timeline import Timeline

MAX_FAILURES_SHOWN = 50
MAX_FAILURE_MESSAGE = 400
"""Characters of a chunk's error in the table of failures."""
MAX_GROUPS_SHOWN = 30
MAX_COLUMNS_SHOWN = 60
_MARKS = {"\t": "tab", " ": "space", ",": "comma", ";": "semicolon", "|": "pipe", '"': "double"}
"""Words for delimiters and quotes that are hard to see among other words."""


def rows_section(facts: RunFacts) -> Markup | None:
    """Show the conservation law with the run's counts."""
    if facts.record is None:
        return None
    rows, word = facts.report.rows, written_word(facts.report.mode)
    counts = rows.shown(facts.report.mode)
    parts: list[Content] = [tile(f"{rows.read:,}", "rows read")]
    for number, (_, count, shown) in enumerate(counts):
        sign = "+" if number else "="
        parts += [element("span", sign, class_="sign"), tile(f"{count:,}", shown)]
    if not rows.conserved:
        says = element("p", "The counts do not add up: please report it.", class_="bad")
    elif rows.read:
        says = element("p", "Every row that was read is accounted for.", class_="good")
    else:
        says = element("p", "No row was read.", class_="muted")
    kinds = [(f"row-{name}", shown) for name, _, shown in counts]
    return section(
        "Rows",
        element("div", parts, class_="law"),
        outcome_bar(rows, word) if rows.read else None,
        legend(kinds) if rows.read else None,
        says,
    )


def speed_section(facts: RunFacts, timeline: Timeline | None) -> Markup | None:
    """Show how fast rows were settled, on average and over time."""
    report = facts.report
    if timeline is None and not report.rows.read:
        return None
    seconds = report.seconds if timeline is None else timeline.axis.seconds
    busy = max(seconds, 0.001)
    tiles = [
        tile(duration_text(seconds), "of work"),
        tile(f"{short(report.rows.read / busy)}/s", "rows, on average"),
        tile(size_text(report.bytes), "of the source"),
        tile(f"{report.work.requests:,}", "requests"),
        tile(f"{report.work.throttled:,}", "throttled"),
        tile(f"{report.work.retries:,}", "repeated"),
    ]
    if timeline is None:
        why = "Times are not known: an earlier version of ddbload did not record them."
        charts: Content = element("p", why, class_="muted")
    else:
        charts = _rates(facts, timeline)
    return section("Speed", element("div", tiles, class_="tiles"), charts)


def _rates(facts: RunFacts, timeline: Timeline) -> list[Content]:
    rates, limits = timeline.rates, facts.limits
    most = None if limits is None else limits.max_wcu
    panels = [Panel("Rows per second", rates.rows, "rate-rows")]
    if any(rates.units):
        panels.append(Panel("Write units per second", rates.units, "rate-units", most))
    if any(rates.throttled):
        panels.append(Panel("Throttled requests per second", rates.throttled, "rate-throttled"))
    axis = timeline.axis
    notes = [f"Times are UTC, from {utc_text(axis.began)} to {utc_text(axis.ended)}."]
    if len(axis.spans) > 1:
        notes.append("Pauses are cut short; they are the dashed areas.")
    if not any(rates.throttled):
        notes.append("No request was throttled.")
    if timeline.untimed:
        notes.append(f"{timeline.untimed:,} segments of an earlier version have no times.")
    return [rates_chart(axis, panels), element("p", " ".join(notes), class_="muted")]


def work_section(facts: RunFacts, timeline: Timeline | None) -> Markup | None:
    """Show which worker imported which chunk when."""
    if timeline is None:
        return None
    kinds = [("first", "first invocation on a chunk"), ("more", "continuation of a chunk")]
    if facts.report.failures:
        kinds.append(("failed", "last invocation on a chunk that failed"))
    note = "A worker is a process, or an environment of the function."
    if timeline.workers > timeline.lanes:
        note += f" {timeline.workers:,} workers share {timeline.lanes} lanes."
    if timeline.failures:
        note += " A cross is a failure of a chunk."
    return section(
        "Workers",
        work_chart(timeline),
        legend(kinds),
        element("p", note, class_="muted"),
    )


def chunks_section(facts: RunFacts) -> Markup | None:
    """Show which chunks are imported, and why the others failed."""
    report = facts.report
    if not facts.chunks:
        return None
    failed = frozenset(each.chunk for each in report.failures if each.chunk is not None)
    kinds = [("first", "imported"), ("open", "not imported")]
    if failed:
        kinds.insert(1, ("failed", "failed"))
    invocations = len(facts.segments)
    return section(
        "Chunks",
        element(
            "p",
            f"{report.chunks_done:,} of {report.chunks:,} chunks imported, by"
            f" {invocations:,} {'invocation' if invocations == 1 else 'invocations'}.",
        ),
        chunks_chart(facts.chunks, facts.chains, failed),
        legend(kinds),
        _failures(facts) if report.failures else None,
    )


def _failures(facts: RunFacts) -> Markup:
    failures = facts.report.failures
    rows = [
        (
            "-" if each.chunk is None else f"{each.chunk:,}",
            "not known" if each.at is None else utc_text(each.at),
            data(each.name),
            data(each.message, MAX_FAILURE_MESSAGE),
        )
        for each in failures[:MAX_FAILURES_SHOWN]
    ]
    caption = shown_of("failed chunks", len(rows), len(failures))
    return table(caption, ("Chunk", "When", "Error", "Message"), rows, numbers=1)


# Rejects.


def rejects_section(facts: RunFacts) -> Markup | None:
    """Show rejects by cause and column, with examples."""
    tally = facts.rejects
    if tally is None or not facts.report.rows.rejected:
        return None
    groups = tally.groups
    rows = [
        (
            f"{each.rows:,}",
            data(each.cause),
            "-" if each.column is None else data(each.column, 120),
        )
        for each in groups[:MAX_GROUPS_SHOWN]
    ]
    notes = []
    if tally.others:
        notes.append(f"{tally.others:,} more rejects were not read for this page.")
    return section(
        "Rejects",
        table(shown_of("causes", len(rows), len(groups)), ("Rows", "Cause", "Column"), rows, 1),
        *(element("p", note, class_="muted") for note in notes),
        _examples(groups[:MAX_GROUPS_SHOWN], tally),
    )


def _examples(groups: Iterable[RejectGroup], tally: RejectTally) -> Markup:
    several = any(each.source for group in groups for each in group.examples)
    rows: list[TableRow] = []
    for group in groups:
        for each in group.examples:
            source = [] if not several else [data(each.source or "-", 120)]
            more = each.characters - len(each.row)
            left_out = f" … ({more:,} more characters)" if more > 0 else None
            rows.append(
                (
                    *source,
                    "-" if each.line is None else f"{each.line:,}",
                    f"{each.byte:,}",
                    data(each.detail, 200),
                    (element("code", element("bdi", each.row)), left_out),
                )
            )
    words = "Examples"
    if tally.masked:
        words += (
            ". Rows are masked (x is a letter, 9 a digit, · anything else); ddbload report RUN"
            " --html FILE --show-rows shows them"
        )
    head = (*(("Source",) if several else ()), "Line", "Byte", "Why", "Row")
    return table(words, head, rows, numbers=2, numbers_from=int(several))


# Input and cost.


def cost_section(facts: RunFacts) -> Markup | None:
    """Show the write units and their price, which only a table has."""
    if facts.report.target is not None:
        return None
    report = facts.report
    work, planned = report.work, report.planned
    rows: list[TableRow] = []
    if planned is not None:
        rows += [
            ("Items that would be written", f"{planned.items:,}"),
            ("Bytes of these items", f"{planned.item_bytes:,}"),
            ("Write units, without indexes", f"{planned.write_units:,}"),
            ("Largest item", f"{planned.largest_item:,} bytes"),
        ]
    elif work.requests or work.consumed_wcu:
        written = report.rows.written
        rows += [("Write units, indexes included", f"{work.consumed_wcu:,.0f}")]
        if written:
            word = written_word(report.mode)
            rows.append((f"Write units for each {word} row", f"{work.consumed_wcu / written:,.2f}"))
        rows += _price(facts.record, work.consumed_wcu)
    return section("Write units and cost", facts_table(rows)) if rows else None


def _price(record: RunRecord | None, units: float) -> Iterator[TableRow]:
    price = None if record is None else record.write_price
    if price is None:
        return
    if price.dollars_per_million:
        yield "Price of these write units", amount_text(price.dollars(units))
    yield "Price of write units", data(price.text)


def source_section(record: RunRecord | None) -> Markup | None:
    """Show which version of the source was read, how, and the table."""
    if record is None:
        return None
    payload, source = record.payload, record.payload.source
    rows: list[TableRow] = [("Source", data(source.uri))]
    if record.objects is not None:
        rows.append(("Objects", f"{record.objects:,}"))
    rows += [(name, value) for name, value in _version(record)]
    rows.append(
        ("Size", "known only by reading" if record.size is None else size_text(record.size))
    )
    rows.append(("Format", _format(record)))
    if record.columns:
        shown = record.columns[:MAX_COLUMNS_SHOWN]
        names: list[Content] = []
        for name in shown:
            names += [", " if names else None, element("code", data(name, 80))]
        left = len(record.columns) - len(shown)
        rows.append(
            (
                f"Columns ({len(record.columns):,})",
                [*names, f" … and {left:,} more"] if left else names,
            )
        )
    if payload.target is None:
        rows.append(("Table", [data(record.table.name), " (id ", data(record.table.id), ")"]))
        keys = ", ".join(f"{key.name} ({key.type})" for key in record.table.keys)
        rows.append(("Keys", data(keys)))
    else:
        rows.append(("Target", data(record.table.name)))
        rows += [(name, data(text)) for name, text in payload.target.templates.items()]
    rows.append(("Mode", payload.options.mode))
    title = "Source and table" if payload.target is None else "Source and target"
    return section(title, facts_table(rows))


def _version(record: RunRecord) -> Iterator[tuple[str, Markup]]:
    """Yield the fields that pin the source's version."""
    pinned = record.pinned
    words = {"version_id": "Version", "etag": "ETag", "mtime_ns": "Changed", "sha256": "SHA-256"}
    for field, name in words.items():
        value = pinned.get(field)
        if value is None:
            continue
        if field == "mtime_ns" and isinstance(value, int):
            value = utc_text(value / 1e9)
        yield name, data(str(value))


def _format(record: RunRecord) -> Content:
    source = record.payload.source
    words: list[Content] = [source.format]
    if source.delimited:
        words += [", delimiter ", data(_MARKS.get(source.delimiter, source.delimiter), 20)]
        words += [", quote ", data(_MARKS.get(source.quote or "", source.quote or "none"), 20)]
    words += [", ", data(source.encoding, 40)]
    if source.compression != "none":
        words += [", compression ", data(source.compression, 20)]
    return words


def limits_section(facts: RunFacts) -> Markup | None:
    """Show the limits that were in force."""
    record = facts.record
    if record is None:
        return None
    options, control = record.payload.options, facts.limits or Control()
    units: list[TableRow] = [
        ("Write units a second (max_wcu)", _limit(control.max_wcu)),
        ("Dollars of write units (max_cost)", _limit(control.max_cost, "$")),
    ]
    rows: list[TableRow] = [
        *(units if record.table.is_table else ()),
        ("Rejects (max_rejects)", str(options.reject_limit)),
        ("Workers", f"{record.workers:,}"),
        ("Requests in flight in a worker (concurrency)", f"{options.concurrency:,}"),
        ("Bytes of a chunk", f"{record.chunk_bytes:,}"),
        ("Bytes of a row (max_row_bytes)", f"{options.row_limit:,}"),
        ("Read before the first write (scan)", EDGES if options.scan == EDGES else WHOLE),
        ("Engine", options.engine),
    ]
    caption = "At the end of the run"
    if control != Control.of(options):
        caption += ", after they were changed while it ran"
    if control.cancelled:
        caption += ". The run was cancelled"
    return section("Limits", facts_table(rows, caption))


def _limit(value: float | None, sign: str = "") -> str:
    return "none" if value is None else f"{sign}{value:,.12g}"
