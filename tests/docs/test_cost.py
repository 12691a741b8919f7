"""docs/cost.md matches the arithmetic of `ddbload plan`."""

from __future__ import annotations

import re

import pytest

from ddbload.contracts import upload_rule
from tests.docs.cost import KNOBS, ROOT, TABLE_RATE, Run, page


def test_cost_page_is_up_to_date():
    written = (ROOT / "docs" / "cost.md").read_text("utf-8")
    assert written == page(), "python -m tests.docs.cost > docs/cost.md"


@pytest.mark.parametrize("rows", [10**6, 10**8])
def test_cost_line_adds_up(rows):
    """The test recomputes each line from the numbers that a reader sees."""
    for line in Run(rows).lines():
        shown = sum(_products(line.service, line.how))
        assert shown == pytest.approx(line.dollars, rel=0.02, abs=2e-5), line


def _products(what, how):
    units = {"a million": 1e-6, "a thousand": 1e-3, "a GB": 1e-3, "a month": 1 / 730}
    for part in how.split(";"):
        counts = [float(each.replace(",", "")) for each in re.findall(r"([\d,.]*\d) ", part)]
        price = float(re.search(r"x \$([\d.]*\d)", part)[1])
        unit = next((unit for word, unit in units.items() if part.rstrip(",").find(word) > 0), 1)
        if what == "Lambda" and "GB-s" in part:
            # The last number before the price is the product; those before it show its factors.
            yield float(re.search(r"([\d,]+) GB-s", part)[1].replace(",", "")) * price
        elif what == "CloudWatch" and "metrics" in part:
            hours = float(re.search(r"for (\d+) h", part)[1])
            yield counts[0] * price * hours * unit
        else:
            yield counts[0] * price * unit


def test_lambda_cost_includes_waiting_for_the_table():
    """A run that waits for the table costs Lambda time in proportion to its workers."""
    run = Run(10**8)
    assert run.seconds == 10**8 / TABLE_RATE
    assert run.work.gb_seconds > 0.99 * run.workers * run.seconds * 1769 / 1024


def test_cost_assumptions_match_the_deployment():
    assert KNOBS["memory_mb"]["import_chunk"] == upload_rule.DEFAULT_MEMORY_MB
    assert KNOBS["timeout_seconds"] == upload_rule.DEFAULT_TIMEOUT_SECONDS


def test_readme_states_the_cost_of_a_million_rows():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"million rows of up to 1 KB cost about ${Run(10**6).total:.2f}," in readme
