"""The page of a run in a browser: nothing of a run's texts runs, loads or becomes an element."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from ddbload.report_page.page import draw_page
from tests.unit.steps.hostile_texts import HOSTILE, ElementCollector, hostile_facts

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 120


@pytest.fixture(scope="module")
def browser() -> str:
    """Find Chromium; a page is only as safe as browsers read it."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no Chromium here (none of {', '.join(BROWSERS)} is in PATH)")
    return found


def document(browser: str, folder: Path, page: str) -> ElementCollector:
    """Open a page in the browser, wait until it is loaded, and read the document."""
    path = folder / "report.html"
    path.write_text(page, "utf-8")
    ended = subprocess.run(
        [
            *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", f"--user-data-dir={folder / 'profile'}"),
            *("--virtual-time-budget=2000", "--dump-dom", path.as_uri()),
        ],
        check=True,
        capture_output=True,
        timeout=SECONDS,
    )
    return ElementCollector(ended.stdout.decode())


def test_browser_finds_nothing_but_text_in_hostile_texts(browser, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        image = f"http://127.0.0.1:{server.getsockname()[1]}/owned.png"
        page = draw_page(hostile_facts(show_rows=True, image=image))
        # Elements that somebody adds by hand are there, but do nothing.
        script = f"<script>document.body.className = 'ran'</script><img src='{image}'>"
        found = document(browser, tmp_path, page.replace("</main>", f"</main>{script}"))
        with pytest.raises(TimeoutError):
            server.accept()
    added = [("script", {}), ("img", {"src": image})]
    drawn = ElementCollector(page)
    # The browser sees the elements and attributes that were written, no more and no fewer.
    assert found.elements == [*drawn.elements, *added]
    assert found.other == []
    assert not {tag for tag, _ in drawn.elements} & {"script", "img", "iframe", "link", "base"}
    assert "<script>alert(1)</script>" in found.text
    assert len(HOSTILE) > 10
