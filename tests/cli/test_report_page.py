"""`ddbload report --html`: the page in a file, on standard output, and beside the report."""

from __future__ import annotations

import json
import re
import stat
from itertools import count

import pytest

from tests.cli.transcript import make_table
from tests.unit.steps.hostile_texts import ElementCollector

RUN = "with-rejects"
LEDGER = ("--ledger", "ledger")
TABLES = count()


@pytest.fixture
def place(console, dynamodb):
    """Console whose ledger has a run with two rejects."""
    table = f"paged-{next(TABLES)}"
    make_table(dynamodb, table, "id:S")
    console.write("a.csv", "id,n\nr1,1\n,no key\nr3,two\nr4,4\n")
    ended = console.ddbload("import", "a.csv", table, "--types", "n=N", "--run-id", RUN, *LEDGER)
    assert ended.code == 3
    return console


def test_page_is_written_for_its_owner(place):
    ended = place.ddbload(
        *("report", RUN, *LEDGER, "--json"),
        *("--html", "page.html", "--show-rows"),
    )
    assert (ended.code, ended.err) == (3, "ddbload: wrote page.html\n")
    assert json.loads(ended.out)["rows"]["rejected"] == 2
    path = place.path("page.html")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = ElementCollector(path.read_text("utf-8")).text
    assert ",no key" in text


def test_page_alone_goes_to_standard_output(place):
    ended = place.ddbload("report", RUN, *LEDGER, "--html", "-")
    assert ended.code == 3
    page = ElementCollector(ended.out)
    assert page.elements[0] == ("html", {"lang": "en"})
    assert page.open == []
    assert "Rows are masked" in page.text
    # The version of a local file.
    assert re.search(r"Version\s*modified \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", page.text)
