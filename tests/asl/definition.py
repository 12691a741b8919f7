"""Read the state machine's definition from the repository, before substitution."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from infra import DEFINITION

TEXT = DEFINITION.read_text("utf-8")
MACHINE: dict[str, Any] = json.loads(TEXT)
CHILD: dict[str, Any] = MACHINE["States"]["ImportChunks"]["ItemProcessor"]


def states() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all states, those of the Map's children included."""
    yield from MACHINE["States"].items()
    yield from CHILD["States"].items()


def tasks() -> dict[str, dict[str, Any]]:
    """Return the states that call a function."""
    return {name: state for name, state in states() if state["Type"] == "Task"}


def successors(state: dict[str, Any]) -> set[str]:
    """Return the names of the states that can follow a state."""
    found = {choice["Next"] for choice in state.get("Choices", ())}
    found |= {catch["Next"] for catch in state.get("Catch", ())}
    return found | {state[name] for name in ("Next", "Default") if name in state}
