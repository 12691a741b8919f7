"""docs/cost.md matches the arithmetic of `ddbload plan`."""

from __future__ import annotations

from ddbload.contracts import upload_rule
from tests.docs.cost import KNOBS, ROOT, TABLE_RATE, Run, page


def test_cost_page_is_up_to_date():
    written = (ROOT / "docs" / "cost.md").read_text("utf-8")
    assert written == page(), "python -m tests.docs.cost > docs/cost.md"


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
