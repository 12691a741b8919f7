"""Sections of the page: rows, speed, workers, chunks, rejects, cost, source and limits."""

from __future__ import annotations

from collections.abc import Iterator

from ddbload.contracts.control import Control
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.write_price import amount_text
from ddbload.dynamodb.write_modes import written_word
from ddbload.pipeline.report_page.marks import (
    LEFT,
    MAX_SINGLE_BARS,
    PLOT,
    TICKS,
    Bar,
    Panel,
    bars,
    figure,
    rates_chart,
    time_grid,
)
from ddbload.pipeline.report_page.markup import (
    Content,
    Markup,
    TableRow,
    data,
    duration_text,
    element,
    facts_table,
    legend,
    muted,
    section,
    short,
    shorten,
    size_text,
    table,
    tile,
    utc_text,
)
from ddbload.pipeline.report_page.reject_causes import RejectTally
from ddbload.pipeline.report_page.run_facts import RunFacts
from ddbload.pipeline.report_page.timeline import LIMIT_SECONDS, Timeline, WorkBlock

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
    rows = facts.report.rows
    words = {"written": written_word(facts.report.mode)}
    if facts.is_plan:
        words["skipped"] = "would be written"
    counts = [each for each in rows.outcomes.items() if each != ("filtered", 0)]
    shown = [(name, words.get(name, name), count) for name, count in counts]
    parts: list[Content] = [tile(f"{rows.read:,}", "rows read")]
    for place, (_, word, count) in enumerate(shown):
        sign = element("span", "+" if place else "=", class_="sign")
        parts += [sign, tile(f"{count:,}", word)]
    if not rows.conserved:
        says = element("p", "The counts do not add up: please report it.", class_="bad")
    elif rows.read:
        says = element("p", "Every row that was read is accounted for.", class_="good")
    else:
        says = muted("No row was read.")
    drawn: Content = None
    if rows.read:
        kinds = [(f"row-{name}", word) for name, word, _ in shown]
        drawn = [_outcome_bar(shown), legend(kinds)]
    return section("Rows", element("div", parts, class_="law"), drawn, says)


def _outcome_bar(counts: list[tuple[str, str, int]]) -> Markup:
    """Draw the outcomes of all rows as one bar."""
    total = max(1, sum(count for _, _, count in counts))
    # One rejected row of a million is seen, too.
    shares = [max(0.004, count / total) if count else 0.0 for _, _, count in counts]
    found, left = [], 0.0
    for (name, word, count), share in zip(counts, shares, strict=True):
        right = left + share / max(1.0, sum(shares))
        if count:
            found.append(Bar(left, right, f"row-{name}", f"{count:,} {word}"))
        left = right
    described = ", ".join(f"{count:,} {word}" for _, word, count in counts)
    return figure("outcomes", "Outcomes of all rows", described, 14, bars(found, 16, 0, 0))


def speed_section(facts: RunFacts, timeline: Timeline | None) -> Markup | None:
    """Show how fast rows were written, on average and over time."""
    report = facts.report
    if timeline is None and not report.rows.read:
        return None
    seconds = report.seconds if timeline is None else timeline.axis.seconds
    tiles = [
        tile(duration_text(seconds), "of work"),
        tile(f"{short(report.rows.read / max(seconds, 0.001))}/s", "rows, on average"),
        tile(size_text(report.bytes), "of the source"),
        tile(f"{report.work.requests:,}", "requests"),
        tile(f"{report.work.throttled:,}", "throttled"),
        tile(f"{report.work.retries:,}", "repeated"),
    ]
    charts = None if timeline is None else _rates(facts, timeline)
    return section("Speed", element("div", tiles, class_="tiles"), charts)


def _rates(facts: RunFacts, timeline: Timeline) -> list[Content]:
    rates, axis = timeline.rates, timeline.axis
    limit = None if facts.limits is None else facts.limits.max_wcu
    units = "Write units per second"
    if limit is not None:
        units += f" (limit {limit:,.0f}{' at the end' if facts.limits_changed else ''})"
    # Where the limit was another before, or a window is too short, no line would be true.
    is_drawn = rates.comparable and not facts.limits_changed
    panels = [Panel("Rows per second", rates.windows, rates.rows, "rate-rows")]
    if any(rates.units):
        line = limit if is_drawn else None
        panels.append(Panel(units, rates.windows, rates.units, "rate-units", line))
    if any(rates.throttled):
        title = "Throttled requests per second"
        panels.append(Panel(title, rates.windows, rates.throttled, "rate-throttled"))
    length = max(window.ended - window.began for window in rates.windows)
    notes = [
        f"Times are UTC, from {utc_text(axis.began)} to {utc_text(axis.ended)}.",
        f"Each bar is the average of {duration_text(length)}, of what DynamoDB accepted then.",
    ]
    if limit is not None and not rates.comparable:
        least = f"{LIMIT_SECONDS:.0f} seconds"
        notes.append(f"The limit is not drawn: it holds over {least}, and there was less work.")
    if len(axis.spans) > 1:
        notes.append("Pauses are cut short; they are the dashed areas.")
    if not any(rates.throttled):
        notes.append("No request was throttled.")
    return [rates_chart(axis, panels), muted(" ".join(notes))]


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
    return section("Workers", work_chart(timeline), legend(kinds), muted(note))


def work_chart(timeline: Timeline) -> Markup:
    """Draw a lane for each worker with the invocations that it worked on."""
    lanes = timeline.lanes
    lane = 20.0 if lanes <= 24 else 10.0 if lanes <= 60 else 5.0
    top = 22.0 if timeline.failures else 6.0
    bottom = top + lane * lanes
    parts: list[Content] = [time_grid(timeline.axis, 2, bottom)]
    for place in range(0, lanes, round(100 / lane) if lane < 20 else 1):
        y = top + place * lane + lane / 2 + 4
        parts.append(element("text", f"worker {place + 1}", x=LEFT - 8, y=y, class_="label end"))
    parts += bars([_work_bar(each) for each in timeline.blocks], lane, top)
    if timeline.failures:
        parts.append(element("text", "failures", x=LEFT - 8, y=15, class_="label end"))
    for failure in timeline.failures[:MAX_SINGLE_BARS]:
        x = LEFT + PLOT * timeline.axis.place(failure.at or 0.0)
        title = element("title", f"chunk {failure.chunk}: {shorten(failure.name, 80)}")
        parts.append(element("path", title, d=f"M{x - 4:.1f} 6l8 8m0 -8l-8 8", class_="mark"))
    described = f"{timeline.workers:,} workers, {len(timeline.blocks):,} invocations"
    return figure("work", "Work of each worker over time", described, bottom + TICKS, parts)


def _work_bar(block: WorkBlock) -> Bar:
    segment, times = block.segment, block.segment.times
    seconds = 0.0 if times is None else times.ended - times.began
    text = (
        f"chunk {segment.chunk}{', continuation' if block.kind == 'more' else ''}:"
        f" {segment.rows.read:,} rows in {duration_text(seconds)},"
        f" {segment.work.throttled:,} requests throttled, {segment.work.retries:,} repeated"
        f"{', then it failed' if block.kind == 'failed' else ''}"
    )
    return Bar(block.left, block.right, block.kind, text, str(segment.chunk), block.lane)


def chunks_section(facts: RunFacts) -> Markup | None:
    """Show which chunks are imported, and why the others failed."""
    report = facts.report
    if not facts.chunks:
        return None
    failed = frozenset(each.chunk for each in report.failures if each.chunk is not None)
    kinds = [("first", "imported"), ("open", "not imported")]
    if failed:
        kinds.insert(1, ("failed", "failed"))
    count = sum(map(len, facts.chains))
    invocations = "1 invocation" if count == 1 else f"{count:,} invocations"
    text = f"{report.chunks_done:,} of {report.chunks:,} chunks imported, by {invocations}."
    failures = _failures(facts) if report.failures else None
    return section(
        "Chunks", element("p", text), chunks_chart(facts, failed), legend(kinds), failures
    )


def chunks_chart(facts: RunFacts, failed: frozenset[int]) -> Markup:
    """Draw the source from its first byte to its last: imported, failed or not imported."""
    chunks, chains = facts.chunks, facts.chains
    first = chunks[0].start
    size = max(1, chunks[-1].end - first)
    found = []
    for chunk, chain in zip(chunks, chains, strict=True):
        reached = chain[-1].end.byte if chain else chunk.start
        done = (reached - chunk.start) / max(1, chunk.end - chunk.start)
        kind, words = ("failed", "failed") if chunk.chunk in failed else ("open", "not imported")
        for start, end, each, text in (
            (chunk.start, reached, "first", "imported"),
            (reached, chunk.end, kind, f"{words}, {done:.0%} done"),
        ):
            if end > start:
                left, right = (start - first) / size, (end - first) / size
                found.append(Bar(left, right, each, f"chunk {chunk.chunk}: {text}"))
    parts = [
        element("rect", x=LEFT, y=4, width=PLOT, height=22, class_="open"),
        *bars(found, 24, 4),
        element("text", "first byte", x=LEFT, y=42, class_="label"),
        element("text", "last byte", x=LEFT + PLOT, y=42, class_="label end"),
    ]
    complete = sum(bool(chain) and chain[-1].proven for chain in chains)
    described = f"{complete:,} of {len(chunks):,} chunks are imported, {len(failed):,} failed"
    return figure("chunks", "Chunks in the order of the source", described, 50, parts)


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
    caption = _caption("failed chunks", len(rows), len(failures))
    return table(caption, ("Chunk", "When", "Error", "Message"), rows, numbers=[0])


def _caption(what: str, shown: int, total: int) -> str:
    """Write a caption that says if a table is not complete."""
    return what.capitalize() if shown == total else f"The first {shown:,} of {total:,} {what}"


def rejects_section(facts: RunFacts) -> Markup | None:
    """Show rejects by cause and column, with examples."""
    tally = facts.rejects
    if tally is None or not facts.report.rows.rejected:
        return None
    groups = tally.groups[:MAX_GROUPS_SHOWN]
    rows = [
        (f"{each.rows:,}", data(each.cause), "-" if each.column is None else data(each.column, 120))
        for each in groups
    ]
    note = f"{tally.others:,} more rejects were not read for this page."
    caption = _caption("causes", len(rows), len(tally.groups))
    return section(
        "Rejects",
        table(caption, ("Rows", "Cause", "Column"), rows, numbers=[0]),
        muted(note) if tally.others else None,
        _examples(tally),
    )


def _examples(tally: RejectTally) -> Markup:
    examples = [each for group in tally.groups[:MAX_GROUPS_SHOWN] for each in group.examples]
    several = any(each.source for each in examples)
    rows: list[TableRow] = []
    for each in examples:
        more = each.characters - len(each.row)
        left_out = f" … ({more:,} more characters)" if more > 0 else None
        rows.append(
            (
                *([data(each.source or "-", 120)] if several else ()),
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
    return table(words, head, rows, numbers=[int(several), int(several) + 1])


def cost_section(facts: RunFacts) -> Markup | None:
    """Show the write units and their price."""
    report, price = facts.report, None if facts.record is None else facts.record.write_price
    work, planned, written = report.work, report.planned, report.rows.written
    rows: list[TableRow] = []
    if planned is not None:
        rows += [
            ("Items that would be written", f"{planned.items:,}"),
            ("Bytes of these items", f"{planned.item_bytes:,}"),
            ("Write units, without indexes", f"{planned.write_units:,}"),
            ("Largest item", f"{planned.largest_item:,} bytes"),
        ]
    elif work.requests or work.consumed_wcu:
        rows.append(("Write units, indexes included", f"{work.consumed_wcu:,.0f}"))
        if written:
            word = written_word(report.mode)
            rows.append((f"Write units for each {word} row", f"{work.consumed_wcu / written:,.2f}"))
        if price is not None and price.dollars_per_million:
            dollars = amount_text(price.dollars(work.consumed_wcu))
            rows.append(("Price of these write units", dollars))
        if price is not None:
            rows.append(("Price of write units", data(price.text)))
    return section("Write units and cost", facts_table(rows)) if rows else None


def source_section(record: RunRecord | None) -> Markup | None:
    """Show which version of the source was read, how, and the table."""
    if record is None:
        return None
    size = "known only by reading" if record.size is None else size_text(record.size)
    rows: list[TableRow] = [("Source", data(record.payload.source.uri))]
    if record.objects is not None:
        rows.append(("Objects", f"{record.objects:,}"))
    rows += [*_version(record), ("Size", size), ("Format", _format(record))]
    if record.columns:
        names: list[Content] = []
        for name in record.columns[:MAX_COLUMNS_SHOWN]:
            names += [", " if names else None, element("code", data(name, 80))]
        left = len(record.columns) - MAX_COLUMNS_SHOWN
        names += [f" … and {left:,} more"] if left > 0 else []
        rows.append((f"Columns ({len(record.columns):,})", names))
    keys = ", ".join(f"{key.name} ({key.type})" for key in record.table.keys)
    rows += [
        ("Table", [data(record.table.name), " (id ", data(record.table.id), ")"]),
        ("Keys", data(keys)),
        ("Mode", record.payload.options.mode),
    ]
    return section("Source and table", facts_table(rows))


def _version(record: RunRecord) -> Iterator[TableRow]:
    """Yield the fields that pin the source's version."""
    words = {"version_id": "Version", "etag": "ETag", "mtime_ns": "Changed", "sha256": "SHA-256"}
    for field, name in words.items():
        value = record.pinned.get(field)
        if field == "mtime_ns" and isinstance(value, int):
            value = utc_text(value / 1e9)
        if value is not None:
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
    rows: list[TableRow] = [
        ("Write units a second (max_wcu)", _limit(control.max_wcu)),
        ("Dollars of write units (max_cost)", _limit(control.max_cost, "$")),
        ("Rejects (max_rejects)", str(options.reject_limit)),
        ("Workers", f"{record.workers:,}"),
        ("Requests in flight in a worker (concurrency)", f"{options.concurrency:,}"),
        ("Bytes of a chunk", f"{record.chunk_bytes:,}"),
        ("Bytes of a row (max_row_bytes)", f"{options.row_limit:,}"),
    ]
    caption = "At the end of the run"
    if facts.limits_changed:
        caption += ", after they were changed while it ran"
    if control.cancelled:
        caption += ". The run was cancelled"
    return section("Limits", facts_table(rows, caption))


def _limit(value: float | None, sign: str = "") -> str:
    return "none" if value is None else f"{sign}{value:,.12g}"
