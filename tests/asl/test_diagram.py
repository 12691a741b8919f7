"""docs/state-machine.md is generated from the definition."""

from __future__ import annotations

from infra.diagram import STATE_MACHINE_PAGE, page
from tests.asl.definition import MACHINE, states


def test_state_machine_page_is_up_to_date():
    """`python -m infra.diagram` generates the page."""
    assert STATE_MACHINE_PAGE.read_text("utf-8") == page(MACHINE)


def test_diagram_has_every_state_and_transition():
    drawn = page(MACHINE).partition("```mermaid")[2].partition("```")[0]
    for name, _ in states():
        assert f'"{name}' in drawn
    assert '-->|"cursor is not null"| state_Preflight' in drawn
    assert '-->|"chunks is 0"| state_Report' in drawn
    assert '-.->|"any error"| state_Report' in drawn
    assert drawn.count("subgraph") == drawn.count("\n  end") == 1
