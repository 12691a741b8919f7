"""Test of the whole template, so that reviewers see every change.

UPDATE_SNAPSHOT=1 writes tests/infra/template.json anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from infra import DEFINITION
from tests.infra.synthesis import Synthesized

SNAPSHOT = Path(__file__).with_name("template.json")
ASSET = re.compile(r"[0-9a-f]{64}(?=\.zip)")


def test_template_matches_the_snapshot(synthesized: Synthesized):
    found = settled(synthesized.template)
    if os.environ.get("UPDATE_SNAPSHOT"):
        SNAPSHOT.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    assert found == json.loads(SNAPSHOT.read_text("utf-8"))


def settled(template: dict[str, Any]) -> dict[str, Any]:
    """Without what changes with any change of the functions' code, or of the state machine."""
    text = ASSET.sub("ASSET", json.dumps(template))
    definition = json.dumps(DEFINITION.read_text("utf-8"))
    assert text.count(definition) == 1
    found: dict[str, Any] = json.loads(text.replace(definition, '"statemachine/import.asl.json"'))
    return found
