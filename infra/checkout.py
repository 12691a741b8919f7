"""Where what is deployed lies in this checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFINITION = ROOT / "statemachine" / "import.asl.json"
"""The state machine, the one definition of it."""
REQUIREMENTS = ROOT / "lambdas" / "requirements.txt"
STATE_MACHINE_PAGE = ROOT / "docs" / "state-machine.md"
