"""`ddbload report --html`: the page in a file, on standard output, and beside the report."""

from __future__ import annotations

import json
import stat

import pytest

from tests.golden.runs import LEDGER, WITH_REJECTS, Place, load
from tests.unit.pipeline.hostile_texts import ElementCollector


@pytest.fixture
def place(console, s3):
    with Place(console, s3) as made:
        made.write_ledger(load(2, WITH_REJECTS.name).ledger)
        yield made


def test_page_is_written_for_its_owner(place):
    ended = place.ddbload(
        *("report", WITH_REJECTS.name, "--ledger", LEDGER, "--json"),
        *("--html", "page.html", "--show-rows"),
    )
    assert (ended.code, ended.err) == (3, "ddbload: wrote page.html\n")
    assert json.loads(ended.out)["rows"]["rejected"] == 7
    path = place.console.path("page.html")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = ElementCollector(path.read_text("utf-8")).text
    (raw, *_) = [json.loads(line)["raw"] for line in load(2, WITH_REJECTS.name).rejects]
    assert raw in text
    assert "Times are not known" in text


def test_page_alone_goes_to_standard_output(place):
    ended = place.ddbload("report", WITH_REJECTS.name, "--ledger", LEDGER, "--html", "-")
    assert ended.code == 3
    page = ElementCollector(ended.out)
    assert page.elements[0] == ("html", {"lang": "en"})
    assert page.open == []
    assert "Rows are masked" in page.text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--show-rows"], 2, "--show-rows is for --html"),
        (["--html", "-", "--json"], 2, "both write to standard output"),
        (["--html", "missing/page.html"], 1, "OutputUnwritable: --html missing/page.html"),
    ],
)
def test_wrong_uses_are_refused(place, arguments, code, words):
    ended = place.ddbload("report", WITH_REJECTS.name, "--ledger", LEDGER, *arguments)
    assert ended.code == code
    assert words in ended.err
    assert ended.out == ""
