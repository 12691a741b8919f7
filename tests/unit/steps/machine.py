"""The state machine's flow by hand, over a world in memory: every message as JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ddbload.contracts.results import DONE
from ddbload.contracts.states import ImportTask, PreflightTask, ReportCursor, ReportTask
from ddbload.errors import DdbloadError
from ddbload.steps.import_chunk import import_chunk
from ddbload.steps.preflight import preflight
from ddbload.steps.report import report_execution
from tests.unit.steps.world import World


def execute(
    world: World,
    given: object,
    name: str,
    seconds: float = float("inf"),
    lost: frozenset[int] = frozenset(),
    killed: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """An execution to its end: what Report returns. The chunks in `lost` fail without a word,
    those in `killed` end by an error that no function raised.
    """
    state: Any = over_the_wire(
        {"input": given, "run": name, "execution": f"arn:of:{name}", "cursor": None}
    )
    try:
        while True:
            task = PreflightTask.from_json(state)
            state = over_the_wire(preflight(task, world.context(seconds)).to_json())
            if state["cursor"] is None:
                break
    except DdbloadError as error:
        state["error"] = caught(error)
        return report(world, state)
    if state["chunks"]:
        for group in json.loads(world.store.objects[state["manifest"]]):
            numbers = {chunk["chunk"] for chunk in group["chunks"]}
            if not numbers & lost:
                found = (cause for number, cause in (killed or {}).items() if number in numbers)
                _child(world, state["run"], group["chunks"], seconds, next(found, None))
    return report(world, state)


def report(world: World, state: dict[str, Any], seconds: float = float("inf")) -> dict[str, Any]:
    while True:
        task = ReportTask.from_json(over_the_wire(state))
        made = report_execution(task, world.context(seconds))
        if not isinstance(made, ReportCursor):
            break
        state = {**state, "report": made.to_json()}
    outcome: dict[str, Any] = over_the_wire(made.to_json())
    assert (outcome["status"] in DONE) == (outcome["error"] is None)
    return outcome


def caught(error: DdbloadError) -> dict[str, str]:
    """Return a function's error as the state machine catches it."""
    cause = {"errorMessage": error.message, "errorType": error.name, "stackTrace": []}
    return {"Error": error.name, "Cause": json.dumps(cause)}


def over_the_wire(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _child(
    world: World, run: str, chunks: list[dict[str, int]], seconds: float, killed: str | None
) -> None:
    state = {"run": run, "chunks": chunks, "stalled": 0}
    try:
        while True:
            if killed is not None:
                error = {"Error": killed, "Cause": "RequestId: 1 signal: killed"}
                break
            task = ImportTask.from_json(state)
            state = over_the_wire(import_chunk(task, world.context(seconds)).to_json())
            if not state["chunks"]:
                return
    except DdbloadError as raised:
        error = caught(raised)
    word = ImportTask.from_json(over_the_wire({**state, "error": error}))
    left = over_the_wire(import_chunk(word, world.context()).to_json())
    assert left["error"]["name"] == error["Error"]
