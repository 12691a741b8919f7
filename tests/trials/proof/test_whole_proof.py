"""`make test-aws` against the emulation: whole, and interrupted; nothing is left."""

from __future__ import annotations

import json
import signal

import pytest

from proof.parts import PARTS

NOT_EMULATED = {"500-wcu", "cold-starts", "log-key"}


@pytest.mark.timeout(1500)
def test_whole_proof_passes_and_leaves_nothing(cloud):
    assert cloud.run("--yes") == 0, cloud.log()
    assert cloud.things() == {}
    result = json.loads((cloud.folder / "aws-proof.json").read_text())
    by_status = {"measured": set(), "left out": set()}
    for each in result["figures"]:
        by_status[each["status"]].add(each["part"])
    assert by_status["measured"] == {part.name for part in PARTS} - NOT_EMULATED
    assert by_status["left out"] >= NOT_EMULATED | {"uploads", "redrive"}
    assert result["left"] == []


@pytest.mark.timeout(900)
def test_interrupted_proof_leaves_nothing(cloud):
    """A run is under way, and the stack is deployed."""
    process = cloud.start("--yes", "--parts", "stop")
    cloud.wait_for("proof: stop: an execution", process)
    process.send_signal(signal.SIGINT)
    assert process.wait(600) == 130, cloud.log()
    assert "proof: nothing is left" in cloud.log()
    assert cloud.things() == {}
