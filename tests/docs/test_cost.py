"""docs/cost.md matches the arithmetic of `ddbload plan`."""

from __future__ import annotations

import pytest

from ddbload.contracts import run_record as prices
from ddbload.contracts import upload_rule
from tests.docs.cost import KNOBS, MANY, ROOT, TABLE_RATE, Run, one_run, page, small_uploads


def test_cost_page_is_up_to_date():
    written = (ROOT / "docs" / "cost.md").read_text("utf-8")
    assert written == page(), "python -m tests.docs.cost > docs/cost.md"


def test_lambda_cost_includes_waiting_for_the_table():
    """A run that waits for the table costs Lambda time in proportion to its workers."""
    run = Run(10**8)
    assert run.seconds == 10**8 / TABLE_RATE
    memory_gb = upload_rule.IMPORT_MEMORY_MB / 1024
    assert run.work.gb_seconds > 0.99 * run.workers * run.seconds * memory_gb
    # Nearly all of it is waiting.
    assert run.waiting == pytest.approx(run.work.gb_seconds * prices.GB_SECOND, rel=0.2)


def test_small_uploads_cost_more_as_runs_of_their_own():
    each, together = small_uploads(MANY), one_run(MANY)
    assert each["DynamoDB"] == pytest.approx(together["DynamoDB"])
    assert sum(each.values()) > 5 * sum(together.values())


def test_cost_assumptions_match_the_deployment():
    assert KNOBS["memory_mb"]["import_chunk"] == upload_rule.IMPORT_MEMORY_MB
    assert KNOBS["memory_mb"]["preflight"] == upload_rule.DEFAULT_MEMORY_MB
    assert KNOBS["timeout_seconds"] == upload_rule.DEFAULT_TIMEOUT_SECONDS


def test_readme_states_the_cost_of_a_million_rows():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"million rows of up to 1 KB cost about ${Run(10**6).total:.2f}," in readme
