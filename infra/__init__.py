"""The deployment as a CDK app: one construct a file. `app.py` is its entry, cdk.json its knobs."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFINITION = ROOT / "statemachine" / "import.asl.json"
"""The only definition of the state machine."""
