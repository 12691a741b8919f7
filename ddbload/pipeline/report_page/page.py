"""Write the page of a run: one file of HTML and SVG, without scripts and without requests."""

from __future__ import annotations

from ddbload.contracts.results import ALREADY_LOADED, FAILED, SUCCEEDED
from ddbload.dynamodb.write_modes import DELETE
from ddbload.pipeline.report_page.markup import (
    Content,
    Markup,
    TableRow,
    data,
    document,
    duration_text,
    element,
    muted,
    section,
    style_sheet,
    table,
    utc_text,
)
from ddbload.pipeline.report_page.run_facts import (
    RunFacts,
    list_next_steps,
    list_remarks,
)
from ddbload.pipeline.report_page.sections import (
    chunks_section,
    cost_section,
    limits_section,
    rejects_section,
    rows_section,
    source_section,
    speed_section,
    work_section,
)
from ddbload.pipeline.report_page.style import CSS, POLICY
from ddbload.pipeline.report_page.timeline import make_timeline

_GUIDE = "https://github.com/ddbload/ddbload/blob/main/docs/"
MAX_MESSAGE = 2000
"""Characters of an error message that the page shows."""
_STATUS_CLASSES = {SUCCEEDED: "good", ALREADY_LOADED: "good", FAILED: "bad"}


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
                rows_section(facts),
                speed_section(facts, timeline),
                work_section(facts, timeline),
                chunks_section(facts),
                rejects_section(facts),
                cost_section(facts),
                source_section(facts.record),
                limits_section(facts),
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
        mode = record.payload.options.mode
        run = element("code", data(report.run))
        began = ["run ", run, f", begun {utc_text(record.created)}, "]
        title = [data(record.payload.source.uri), " → ", data(record.table.name)]
        if facts.is_plan:
            title = [*title, " (plan: nothing is sent)"]
        elif mode == DELETE:
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
    commands = [each for each in list_next_steps(facts) if "resume" in each.words.split()]
    chunk = None if error.chunk is None else f" (chunk {error.chunk:,})"
    return element(
        "section",
        element("p", element("span", data(error.name), chunk, class_="name bad")),
        element("p", data(error.message, MAX_MESSAGE)),
        *(
            element("p", "Once the cause is removed: ", element("code", data(each.words, 2000)))
            for each in commands
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
        (element("code", data(each.words, 4000)), each.purpose) for each in list_next_steps(facts)
    ]
    note = muted("Add --stack NAME if the stack is not called ddbload.") if facts.deployed else None
    return section("Commands", table("Next steps", ("Command", "Purpose"), rows), note)


def _footer(facts: RunFacts) -> Markup:
    link = element("a", "What this page shows", href=f"{_GUIDE}report.md", rel="noreferrer")
    return element("footer", element("p", f"Written by ddbload, {utc_text(facts.now)}. ", link))
