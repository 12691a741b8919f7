"""docs/plan.md documents every field of a plan."""

from __future__ import annotations

import re
from typing import Any

from ddbload.planning.make_plan import make_plan
from tests.docs.cost import ROOT
from tests.unit.steps.world import World

PAGE = (ROOT / "docs" / "plan.md").read_text("utf-8")
OPEN = {"price.services"}
"""Objects whose fields are arbitrary names."""


def fields(value: Any, path: str = "") -> set[str]:
    """Return the paths of an object's fields: `keys.hottest.share`, `columns[].name`."""
    found = {path} if path else set()
    if path in OPEN:
        return found
    if isinstance(value, dict):
        for name, inner in value.items():
            found |= fields(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            found |= fields(inner, f"{path}[]")
    return found


def documented() -> set[str]:
    """Return the fields that the page's table names; `.c` below a row `a.b` means `a.c`."""
    found: set[str] = set()
    table = PAGE.partition("## `--json`")[2].partition("## Warnings")[0]
    for line in table.splitlines():
        if not line.startswith("| `"):
            continue
        names, told = line[2:].split(" | ", 1)
        parent, here = "", set[str]()
        for name in re.findall(r"`([^`]+)`", names):
            if name.startswith("."):
                here.add(parent + name)
            else:
                here.add(name)
                parent = name.rpartition(".")[0]
        words = re.findall(r"`(\w+)`", told)
        found |= here | {f"{name}.{word}" for name in here for word in words}
    return found


def test_plan_page_documents_every_field():
    rows = "".join(f"{n % 7000},t{n % 2}\n" for n in range(8000))
    world = World(f"id,team\n,x\n{rows}".encode(), indexes=[[("team", "S")]], types={"team": "S"})
    world.options["max_wcu"] = 1.0
    told = fields(make_plan(world.payload, world.context()).to_json())
    failed = World(b"id\n", make_table=False)
    told |= fields(make_plan(failed.payload, failed.context()).to_json())
    known = {name.replace("[]", "") for name in documented()}
    parents = {name.rpartition(".")[0] for name in known}
    missing = {name for name in told if name.replace("[]", "") not in known | parents}
    assert missing == set()
