"""README.md shows the pipeline first: what it draws, sends and lists is the product's own."""

from __future__ import annotations

import json
import re

import pytest

from ddbload.contracts.payload import Payload
from tests.asl.definition import states
from tests.docs.cost import ROOT

README = (ROOT / "README.md").read_text("utf-8")
LINES = 65
"""Lines of the first screen, about."""
FIRST_SCREEN = "\n".join(README.splitlines()[:LINES])


@pytest.mark.parametrize(
    "shown",
    [
        "Step\\s+Functions",
        "Lambda",
        "threads",
        "asyncio",
        "git clone ",
        "make setup node_modules",
        "cdk deploy",
        "start-execution",
        "s3 cp books.csv .*inbox",
        '"target"',
        "import books.csv books",
        "make demo",
        "statemachine/",
        "tests/",
    ],
)
def test_first_screen_shows(shown: str):
    assert re.search(shown, FIRST_SCREEN)


def test_diagram_names_the_states_of_the_machine():
    diagram = next(block for block in blocks("text") if "Preflight" in block)
    named = {name for name, _ in states() if re.search(rf"(?<![\w?]){re.escape(name)}", diagram)}
    # Left out: states that only copy or wait, and what follows a failed chunk.
    left_out = {"Begin", "AwaitTurn", "LeaveWord", "ChunkFailed", "Done", "MoreReport?"}
    assert named == {name for name, _ in states()} - left_out
    assert diagram in FIRST_SCREEN


def test_payload_is_one_that_the_state_machine_takes():
    (payload,) = blocks("json")
    read = Payload.from_json(json.loads(payload))
    assert (read.source.uri, read.table) == ("s3://my-bucket/in/books.csv", "books")
    assert read.source.path is None
    assert payload in FIRST_SCREEN


def test_folders_are_those_of_the_repository():
    listing = next(block for block in blocks("text") if "statemachine/" in block)
    found = set(re.findall(r"\w+/|\w+\.py", listing))
    wanted = {"infra/", "lambdas/", "statemachine/", "ddbload/", "localaws/", "tests/"}
    assert wanted | {"app.py"} <= found
    assert [name for name in found if not (ROOT / name).exists()] == []
    assert listing in FIRST_SCREEN


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
