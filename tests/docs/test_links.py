"""Links to files and to headings of pages have targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.cost import ROOT

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests" / "README.md"]


def anchors(page: Path) -> set[str]:
    """Return the headings of a page as GitHub names them in links."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_links_to_files_have_targets() -> None:
    linked = [
        (page, link)
        for page in PAGES
        # Entries name pages of their time.
        if page.name != "CHANGELOG.md"
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))
        if not link.startswith(("http", "mailto:"))
    ]
    assert [(page, link) for page, link in linked if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_headings_have_targets(page: Path):
    named = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text("utf-8"))
    assert [
        f"{link}#{anchor}"
        for link, anchor in named
        if not link.startswith("http")
        and anchor not in anchors(page.parent / link if link else page)
    ] == []
