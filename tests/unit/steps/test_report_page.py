"""The page of a run: complete, small, accessible, and safe whatever the run's texts are."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from ddbload.errors import ServiceUnavailable, visible
from ddbload.ledger.ledger import Ledger
from ddbload.report_page import page as page_module
from ddbload.report_page.markup import Markup, data, element
from ddbload.report_page.page import RunFacts, draw_page, run_page
from ddbload.steps import report
from ddbload.steps.report import read_run
from tests.unit.steps.hostile_texts import HOSTILE, ElementCollector, hostile_facts
from tests.unit.steps.page_scenes import SCENES, many_chunks
from tests.unit.steps.world import RUN, World

MOST_BYTES = 2_000_000
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "footer"),
    *("div", "span", "p", "h1", "h2", "a", "b", "bdi", "code", "ul", "li"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "path", "rect", "line", "text", "desc"),
}
INVISIBLE = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)
CANARY = "canary-4711"


def draw(scene: RunFacts) -> ElementCollector:
    """Draw a page, check what holds for every page, and return its elements."""
    text = draw_page(scene)
    # Browsers must read it, too.
    assert text.encode().decode() == text
    assert text.startswith("<!doctype html>\n<html")
    page = ElementCollector(text)
    assert page.open == []
    assert page.other == []
    assert {tag for tag, _ in page.elements} <= TAGS
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
        href = attributes.get("href")
        assert (href is not None) == (tag == "a")
        assert href is None or href.startswith("https://github.com/ddbload/ddbload/blob/")
    assert not INVISIBLE.search(text)
    return page


@pytest.mark.parametrize("name", SCENES)
def test_pages_are_well_formed(name):
    page = draw(SCENES[name]())
    assert "-" in page.text
    # Headings are words for readers, and no names of the code.
    assert not re.search(r"<th[^>]*>[A-Z][a-z]+[A-Z]", draw_page(SCENES[name]()))
    assert len([tag for tag, _ in page.elements if tag == "h1"]) == 1


def test_invocation_on_several_chunks_is_counted_and_drawn_once():
    world = World(
        b"id\n" + b"".join(b"k%03d\n" % n for n in range(300)),
        options={"chunk_bytes": 100, "workers": 1},
    )
    world.preflight()
    groups = world.ledger.find_groups()
    assert groups is not None
    segments = len(world.import_step(*groups[0]).segments)
    assert segments == len(groups[0]) > 1
    text = run_page(world.report(), world.context())
    chunks = len(world.manifest)
    assert f"{segments} of {chunks} chunks imported, by 1 invocation." in text
    assert "1 workers, 1 invocations" in text
    (boxes,) = re.findall('<path d="([^"]*)" class="first bar"', text)
    assert boxes.count("M") == 1


def test_policy_allows_the_style_sheet_and_nothing_else():
    text = draw_page(SCENES["one-chunk"]())
    (style,) = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = ElementCollector(text)
    metas = [attributes for tag, attributes in page.elements if tag == "meta"]
    # The policy holds for what follows it, and the encoding must be known before.
    assert metas[0] == {"charset": "utf-8"}
    assert metas[1]["http-equiv"] == "Content-Security-Policy"
    assert metas[1]["content"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in style
    assert "@import" not in style


def test_page_says_what_happened():
    text = draw(many_chunks()).text
    for words in (
        *("FAILED", "s3://exports/2026/books.csv → books", "20261121T073000Z-1f2e3d"),
        *("TooManyRejects", "(and 2 more chunks failed)", "SplitMismatch", "ServiceUnavailable"),
        "ddbload resume 20261121T073000Z-1f2e3d",
        *("607,962", "607,722", "Every row that was read is accounted for."),
        *("37 of 40 chunks imported", "Write units per second (limit 4,000)"),
        *("Throttled requests per second", "Pauses are cut short", "not_a_number", "field_count"),
        *("no work for 19 h", "$0.625 a million (us-east-1 list price of 2026-11)"),
        *("worker 6", "Kx7f.Qp2", "book_id, title, year, price"),
    ):
        assert words in text, words


@pytest.mark.parametrize("show_rows", [True, False])
def test_hostile_texts_stay_texts(show_rows):
    scene = hostile_facts(show_rows=show_rows)
    page = draw(scene)
    assert len(draw_page(scene)) < MOST_BYTES
    for text in HOSTILE[:-1]:
        assert visible(text) in page.text, text
    assert f"{'x' * 400}..." in page.text
    assert all("127.0.0.1" not in str(each.values()) for _, each in page.elements)


def test_text_is_escaped_and_markup_is_not():
    assert str(element("p", "<b>", Markup("<b></b>"))) == "<p>&lt;b&gt;<b></b></p>"
    assert str(data("a" * 900, 3)) == "<bdi>aaa...</bdi>"


# In the ledger.

ROWS = b"id,n\n" + b"".join(
    b"%s-%d,%s\n" % (CANARY.encode(), number, b"bad-canary" if number % 7 == 0 else b"1")
    for number in range(40)
)


@pytest.fixture
def world() -> World:
    """Import a file with rejects, but do not report it yet."""
    world = World(ROWS, types={"n": "N"}, options={"chunk_bytes": 200})
    world.preflight()
    world.import_all()
    return world


def page_in_ledger(world: World) -> str:
    return world.store.objects[f"runs/{RUN}/report.html"].decode()


def test_report_writes_a_page_without_row_data(world):
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"
    text = ElementCollector(page_in_ledger(world)).text
    assert "canary" not in text
    assert "4711" not in text
    assert "xxxxxx·9999·9,xxx·xxxxxx" in text
    assert "not_a_number" in text


def test_columns_of_json_rows_are_row_data():
    rows = b'{"id": "a", "canary": 1e999}\n{"id": "b"}\n'
    world = World(rows, source={"format": "json"})
    assert world.run().rows.rejected == 1
    assert "canary" not in page_in_ledger(world)
    report_now = read_run(RUN, world.context()).report
    assert "canary" in run_page(report_now, world.context(), show_rows=True)


# Its failure.


def break_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_facts: RunFacts) -> str:
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr(page_module, "draw_page", fail)


def break_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_ledger: Ledger, _page: str, _report: object) -> None:
        raise ServiceUnavailable("no bucket")

    monkeypatch.setattr(Ledger, "put_page", fail)


@pytest.mark.parametrize("fault", [break_drawing, break_writing])
def test_failure_of_the_page_fails_no_run(world, monkeypatch, fault):
    fault(monkeypatch)
    notices: list[str] = []
    context = world.context()
    context.notice = notices.append
    assert report.write_report(RUN, context).status == "SUCCEEDED_WITH_REJECTS"
    assert world.read_json("report.json")["status"] == "SUCCEEDED_WITH_REJECTS"
    (notice,) = notices
    assert notice.startswith("report.html was not written: ")
    assert CANARY not in notice
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


@pytest.mark.parametrize(("seconds", "written"), [(59.0, False), (61.0, True)])
def test_page_is_written_only_with_enough_time_left(world, seconds, written):
    context = world.context(seconds)
    assert report.write_report(RUN, context).status == "SUCCEEDED_WITH_REJECTS"
    assert (f"runs/{RUN}/report.html" in world.store.objects) == written
