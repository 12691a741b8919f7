"""Write the reference of docs/python.md from the docstrings of `ddbload.api`.

`.venv/bin/python -m tests.docs.python` replaces what follows the heading Reference.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import ddbload
from ddbload import api

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
MARK = "## Reference\n"
FUNCTIONS = ("load", "plan", "verify", "start", "resume", "status", "rejects")


def reference() -> str:
    parts = [
        f"{MARK}\nFrom the docstrings; [options.md](options.md) lists the options of a load.\n"
    ]
    for name in FUNCTIONS:
        function = getattr(ddbload, name)
        names = ", ".join(parameter_names(function))
        parts.append(f"### ddbload.{name}({names})\n\n```text\n{inspect.getdoc(function)}\n```\n")
    members = [
        f"{name}: {inspect.getdoc(getattr(api.RunResult, name))}"
        for name in ("run", "status", "rows", "uncertain", "error", "raise_for_status")
    ]
    parts.append("### ddbload.RunResult\n\n```text\n" + "\n\n".join(members) + "\n```\n")
    return "\n".join(parts)


def parameter_names(function: object) -> list[str]:
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return [f"**{each.name}" if each.kind is each.VAR_KEYWORD else each.name for each in found]


def page() -> str:
    text = PAGE.read_text("utf-8")
    return text[: text.index(MARK)] + reference()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
