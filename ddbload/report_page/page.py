"""Write the page of a run: one file of HTML and SVG, without scripts and without requests."""

from __future__ import annotations

from ddbload.contracts.results import ALREADY_LOADED, FAILED, SUCCEEDED
from ddbload.contracts.write_price import amount_text
from ddbload.dynamodb.modes import mode_of
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
    style_sheet,
    table,
    tile,
    utc_text,
)
from ddbload.report_page.run_facts import RunFacts, list_next_steps, list_remarks
from ddbload.report_page.style import CSS, POLICY
from ddbload.report_page.timeline import LIMIT_SECONDS, Timeline, make_timeline

MAX_MESSAGE = 2000
"""Characters of an error message that the page shows."""
MAX_FAILURES_SHOWN = 50
MAX_GROUPS_SHOWN = 30
MAX_COLUMNS_SHOWN = 60
_GUIDE = "https://github.com/ddbload/ddbload/blob/main/docs/"
_STATUS_CLASSES = {SUCCEEDED: "good", ALREADY_LOADED: "good", FAILED: "bad"}
_VERSION = {"version_id": "Version", "etag": "ETag", "sha256": "SHA-256"}


def draw_page(facts: RunFacts) -> str:
    """Return the text of the page."""
    limited = facts.limits is not None and facts.limits.max_wcu is not None
    timeline = make_timeline(facts.chains, facts.report.failures, limited=limited)
    return document(
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=POLICY),
            element("meta", name="referrer", content="no-referrer"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", f"{facts.report.run}: {facts.report.status}"),
            style_sheet(CSS),
        ),
        element(
            "body",
            element(
                "main",
                _head(facts),
                _error(facts),
                _remarks(facts),
                _rows(facts),
                _speed(facts, timeline),
                _work(facts, timeline),
                _chunks(facts),
                _rejects(facts),
                _cost(facts),
                _source(facts),
                _commands(facts),
                _footer(facts),
            ),
        ),
    )


def _head(facts: RunFacts) -> Markup:
    report, record = facts.report, facts.record
    kind = _STATUS_CLASSES.get(report.status, "warn")
    if record is None:
        title: Content = ["Run ", data(report.run)]
        began: Content = None
    else:
        run = element("code", data(report.run))
        began = ["run ", run, f", begun {utc_text(record.created)}, "]
        title = [data(record.payload.source.uri), " → ", data(record.table.name)]
        if facts.is_plan:
            title = [*title, " (plan: nothing is sent)"]
        elif record.mode.deletes:
            title = [*title, " (deletes keys)"]
    return element(
        "header",
        element("span", data(report.status), class_=f"status {kind}"),
        element("h1", title),
        element("p", began, f"took {duration_text(report.seconds)}", class_="sub"),
    )


def _error(facts: RunFacts) -> Markup | None:
    error = facts.report.error
    if error is None:
        return None
    link = element("a", "troubleshooting", href=f"{_GUIDE}troubleshooting.md", rel="noreferrer")
    commands = [words for words, _ in list_next_steps(facts) if "resume" in words.split()]
    chunk = None if error.chunk is None else f" (chunk {error.chunk:,})"
    return element(
        "section",
        element("p", element("span", data(error.name), chunk, class_="name bad")),
        element("p", data(error.message, MAX_MESSAGE)),
        *(
            element("p", "Once the cause is removed: ", element("code", data(words, 2000)))
            for words in commands
        ),
        element("p", "More about this error: ", link, ".", class_="muted"),
        class_="box bad",
        aria_label="Error",
    )


def _remarks(facts: RunFacts) -> Markup | None:
    remarks = list(list_remarks(facts))
    if not remarks:
        return None
    items = [element("li", each) for each in remarks]
    return element("section", element("ul", items), class_="box warn", aria_label="Warnings")


def _commands(facts: RunFacts) -> Markup:
    rows: list[TableRow] = [
        (element("code", data(words, 4000)), purpose) for words, purpose in list_next_steps(facts)
    ]
    note = muted("Add --stack NAME if the stack is not called ddbload.") if facts.deployed else None
    return section("Commands", table("Next steps", ("Command", "Purpose"), rows), note)


def _footer(facts: RunFacts) -> Markup:
    link = element("a", "What this page shows", href=f"{_GUIDE}report.md", rel="noreferrer")
    return element("footer", element("p", f"Written by ddbload, {utc_text(facts.now)}. ", link))


def _rows(facts: RunFacts) -> Markup | None:
    """Show the conservation law with the run's counts."""
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
    """Show how fast rows were written, on average and over time."""
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
    rates, axis = timeline.rates, timeline.axis
    limit = None if facts.limits is None else facts.limits.max_wcu
    length = max(ended - began for began, ended in rates.windows)
    notes = [
        f"Times are UTC, from {utc_text(axis.began)} to {utc_text(axis.ended)}.",
        f"Each bar is the average of {duration_text(length)}.",
    ]
    title, line = "Write units per second", None
    if limit is not None:
        title += f" (limit {limit:,.0f}{' at the end' if facts.limits_changed else ''})"
        if not rates.comparable:
            notes.append(f"The limit holds over {LIMIT_SECONDS:.0f} s; shorter work has no line.")
        elif not facts.limits_changed:
            line = limit
    panels = [Panel("Rows per second", rates.rows, "rate-rows")]
    if any(rates.units):
        panels.append(Panel(title, rates.units, "rate-units", line))
    if any(rates.throttled):
        title = "Throttled requests per second"
        panels.append(Panel(title, rates.throttled, "rate-throttled"))
    if len(axis.spans) > 1:
        notes.append("Pauses are cut short; they are the dashed areas.")
    return [rates_chart(axis, rates.windows, panels), muted(" ".join(notes))]


def _work(facts: RunFacts, timeline: Timeline | None) -> Markup | None:
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
    return section("Workers", work_chart(timeline), legend(kinds), muted(note))


def _chunks(facts: RunFacts) -> Markup | None:
    """Show how many chunks are imported, and why the others failed."""
    report = facts.report
    if not facts.chunks:
        return None
    count = sum(map(len, facts.chains))
    invocations = "1 invocation" if count == 1 else f"{count:,} invocations"
    text = f"{report.chunks_done:,} of {report.chunks:,} chunks imported, by {invocations}."
    failures = _failures(facts) if report.failures else None
    return section("Chunks", element("p", text), failures)


def _failures(facts: RunFacts) -> Markup:
    failures = facts.report.failures
    rows = [
        (
            "-" if each.chunk is None else f"{each.chunk:,}",
            "not known" if each.at is None else utc_text(each.at),
            data(each.name),
            data(each.message),
        )
        for each in failures[:MAX_FAILURES_SHOWN]
    ]
    caption = _caption("failed chunks", len(rows), len(failures))
    return table(caption, ("Chunk", "When", "Error", "Message"), rows, numbers=[0])


def _caption(what: str, shown: int, total: int) -> str:
    """Write a caption that says if a table is not complete."""
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
            more = each.characters - len(each.row)
            row = (
                element("code", element("bdi", each.row)),
                f" … ({more:,} more)" if more > 0 else "",
            )
            line = "-" if each.line is None else f"{each.line:,}"
            detail: list[Content] = [data(each.detail, 200)]
            if each.source is not None:
                detail += [" (", data(each.source, 120), ")"]
            rows.append((*head, line, f"{each.byte:,}", detail, row))
            head = [None, None, None]
    caption = _caption("causes", len(groups), len(tally.groups))
    if tally.masked:
        caption += (
            ". Rows are masked (x is a letter, 9 a digit, · anything else); ddbload report RUN"
            " --html FILE --show-rows shows them"
        )
    names = ("Rows", "Cause", "Column", "Line", "Byte", "Why", "Row")
    note = f"{tally.others:,} more rejects were not read for this page."
    shown = table(caption, names, rows, numbers=[0, 3, 4])
    return section("Rejects", shown, muted(note) if tally.others else None)


def _cost(facts: RunFacts) -> Markup | None:
    """Show the write units and their price."""
    report, price = facts.report, None if facts.record is None else facts.record.write_price
    planned, units, rows = report.planned, report.work.consumed_wcu, report.rows
    if planned is not None:
        figures: list[TableRow] = [
            ("Items that would be written", f"{planned.items:,}"),
            ("Bytes of these items", f"{planned.item_bytes:,}"),
            ("Write units, without indexes", f"{planned.write_units:,}"),
            ("Largest item", f"{planned.largest_item:,} bytes"),
        ]
        return section("Write units and cost", facts_table(figures))
    if not report.work.requests:
        return None
    word = mode_of(report.mode).written
    figures = [
        ("Write units, indexes included", f"{units:,.0f}"),
        (f"Write units for each {word} row", f"{units / max(1, rows.written):,.2f}"),
    ]
    if price is not None:
        dollars = f"{amount_text(price.dollars(units))}, at " if price.dollars_per_million else ""
        figures.append(("Price", [dollars, data(price.text)]))
    return section("Write units and cost", facts_table(figures))


def _source(facts: RunFacts) -> Markup | None:
    """Show which version of the source was read, how, the table, and the limits at the end."""
    record, limits = facts.record, facts.limits
    if record is None or limits is None:
        return None
    source, table_, options = record.payload.source, record.table, record.payload.options
    marks = (
        f", delimiter {source.delimiter!r}, quote {source.quote!r}"
        if source.kind.has_columns
        else ""
    )
    names: list[Content] = []
    for name in record.columns[:MAX_COLUMNS_SHOWN]:
        names += [", " if names else None, element("code", data(name, 80))]
    left = len(record.columns) - MAX_COLUMNS_SHOWN
    mtime = record.pinned.get("mtime_ns")
    changed = ", changed while the run was at work" if facts.limits_changed else ""
    rows: list[TableRow] = [
        ("Source", data(source.uri)),
        *(
            (name, data(str(record.pinned[field])))
            for field, name in _VERSION.items()
            if record.pinned.get(field) is not None
        ),
        *([("Changed", utc_text(mtime / 1e9))] if isinstance(mtime, int) else []),
        ("Size", "known only by reading" if record.size is None else f"{record.size:,} bytes"),
        ("Format", data(f"{source.format}{marks}, {source.encoding}, {source.compression}")),
        (f"Columns ({len(record.columns):,})", [*names, f", {left:,} more" if left > 0 else None]),
        ("Table", [data(table_.name), " (id ", data(table_.id), ")"]),
        ("Keys", data(", ".join(f"{key.name} ({key.type})" for key in table_.keys))),
        ("Mode", options.mode),
        ("Write units a second (max_wcu)", _limit(limits.max_wcu) + changed),
        ("Dollars of write units (max_cost)", _limit(limits.max_cost, "$") + changed),
        ("Rejects (max_rejects)", str(options.reject_limit)),
        ("Workers", f"{record.workers:,}"),
    ]
    return section("Source, table and limits", facts_table(rows))


def _limit(value: float | None, sign: str = "") -> str:
    return "none" if value is None else f"{sign}{value:,.12g}"
