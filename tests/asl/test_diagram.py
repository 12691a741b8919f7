"""docs/state-machine.md, which is generated."""

from __future__ import annotations

from infra.checkout import STATE_MACHINE_PAGE
from infra.diagram import page
from tests.asl.definition import MACHINE, states


def test_the_page_is_up_to_date():
    """`python -m infra.diagram` writes it."""
    assert STATE_MACHINE_PAGE.read_text("utf-8") == page(MACHINE)


def test_it_has_every_state_and_every_way():
    drawn = page(MACHINE).partition("```mermaid")[2].partition("```")[0]
    for name, _ in states():
        assert f'"{name}' in drawn
    assert '-->|"cursor is not null"| state_Preflight' in drawn
    assert '-->|"chunks is 0"| state_Report' in drawn
    assert '-.->|"any error"| state_Report' in drawn
    assert drawn.count("subgraph") == drawn.count("\n  end") == 1


def test_no_word_of_it_is_one_of_mermaids():
    """`end` as an identifier breaks a diagram, and so do a `?` and quotes in a label."""
    drawn = page(MACHINE).partition("```mermaid")[2].partition("```")[0]
    for line in drawn.splitlines():
        assert line.count('"') % 2 == 0
        outside = "".join(line.split('"')[::2])
        assert "?" not in outside
