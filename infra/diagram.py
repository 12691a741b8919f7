"""State machine diagram for the docs: `python -m infra.diagram` writes docs/state-machine.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from . import DEFINITION, ROOT

STATE_MACHINE_PAGE = ROOT / "docs" / "state-machine.md"

_SHAPES = {"Choice": ("{", "}"), "Succeed": ("([", "])"), "Fail": ("([", "])")}
_EQUALS = ("NumericEquals", "StringEquals")


def page(definition: dict[str, Any]) -> str:
    """Return the page: a Mermaid diagram, and a table of the states."""
    drawn = "\n".join(["flowchart TD", *_machine(definition, "  ")])
    rows = "\n".join(_rows(definition))
    return f"""\
# The state machine

<!-- `python -m infra.diagram` writes this page from statemachine/import.asl.json. -->

{definition["Comment"]}

A dashed line is an error that is not retried, or was retried in vain.

```mermaid
{drawn}
```

| state | what | retried | then |
|---|---|---|---|
{rows}

A function returns an error that would come again, as `error` with `name` and `message`. What it
raises is retried.
"""


def _machine(machine: dict[str, Any], indent: str) -> Iterator[str]:
    first = _node(machine["StartAt"])
    yield f"{indent}start_{first}(( )) --> {first}"
    for name, state in machine["States"].items():
        yield from _state(name, state, indent)
    for name, state in machine["States"].items():
        for target, label, dashed in _edges(state):
            arrow = "-.->" if dashed else "-->"
            text = f'|"{label}"|' if label else ""
            yield f"{indent}{_node(name)} {arrow}{text} {_node(target)}"


def _state(name: str, state: dict[str, Any], indent: str) -> Iterator[str]:
    if state["Type"] == "Map":
        yield f'{indent}subgraph {_node(name)}["{name}: each group of chunks"]'
        yield from _machine(state["ItemProcessor"], indent + "  ")
        yield f"{indent}end"
        return
    left, right = _SHAPES.get(state["Type"], ("[", "]"))
    yield f'{indent}{_node(name)}{left}"{name}"{right}'


def _node(name: str) -> str:
    """Return a Mermaid identifier: without question marks, and never the keyword `end`."""
    return f"state_{''.join(letter for letter in name if letter.isalnum())}"


def _edges(state: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield the edges of a state: the next state, the label, and true for an error."""
    for choice in state.get("Choices", ()):
        yield choice["Next"], _condition(choice), False
    if "Default" in state:
        yield state["Default"], "else", False
    if "Next" in state:
        yield state["Next"], "", False
    for catch in state.get("Catch", ()):
        yield catch["Next"], _errors(catch), True


def _errors(clause: dict[str, Any]) -> str:
    return ", ".join(clause["ErrorEquals"]).replace("States.ALL", "any error")


def _condition(choice: dict[str, Any]) -> str:
    if "Or" in choice:
        return " or ".join(map(_condition, choice["Or"]))
    variable = choice["Variable"].removeprefix("$.")
    if "IsNull" in choice:
        return f"{variable} is {'' if choice['IsNull'] else 'not '}null"
    if "IsPresent" in choice:
        return f"{variable} is {'' if choice['IsPresent'] else 'not '}given"
    (value,) = (choice[name] for name in _EQUALS if name in choice)
    return f"{variable} is {value}"


def _states(machine: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, state in machine["States"].items():
        yield name, state
        if "ItemProcessor" in state:
            yield from _states(state["ItemProcessor"])


def _rows(machine: dict[str, Any]) -> Iterator[str]:
    for name, state in _states(machine):
        what = f"{state['Type']}. {state.get('Comment', '')}".strip()
        retried = [
            f"{_errors(retry)}: {retry['MaxAttempts']} times" for retry in state.get("Retry", ())
        ]
        ways = [
            f"{label}: {target}" if label else target for target, label, _ in _edges(state)
        ] or ["the end"]
        yield f"| {name} | {what} | {'; '.join(retried) or '-'} | {'; '.join(ways)} |"


def main() -> None:
    """Write the page."""
    STATE_MACHINE_PAGE.write_text(page(json.loads(DEFINITION.read_text("utf-8"))), "utf-8")


if __name__ == "__main__":
    main()
