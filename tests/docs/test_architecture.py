"""docs/architecture.md lists the modules that answer a question, and the hops of an import."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.cost import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
LIMITS = {
    "How is a chunk edge found?": 5,
    "How does a row become an item?": 8,
    "How is a throttled key retried?": 7,
    "How is a Parquet file read?": 6,
    "How is a reject recorded?": 5,
}
"""Most modules that one must open, by question."""
IMPORT_HOPS = "From the handler to DynamoDB"
MAX_HOPS, MAX_HOP_MODULES = 30, 26
"""Most calls from the handler to the socket, and modules that they are in."""
_ENTRY = re.compile(r"\d+\. `([\w/]+\.py)`: (.+)")


def entries(title: str) -> list[tuple[str, str]]:
    """Return the paths of a numbered list, each with the text after it."""
    section = PAGE.partition(f"### {title}\n")[2].partition("\n#")[0]
    return [(match[1], match[2]) for match in map(_ENTRY.match, section.splitlines()) if match]


def defined_names(path: str) -> set[str]:
    """Return the functions, methods and classes that a file defines."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    tree = ast.walk(ast.parse(Path(ROOT / path).read_text("utf-8")))
    return {node.name for node in tree if isinstance(node, kinds)}


@pytest.mark.parametrize("title", [*LIMITS, IMPORT_HOPS])
def test_list_names_existing_modules(title):
    paths = [path for path, _ in entries(title)]
    assert len(paths) >= 3
    assert [path for path in paths if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(("title", "limit"), LIMITS.items())
def test_list_is_within_its_limit(title, limit):
    paths = [path for path, _ in entries(title)]
    assert len(set(paths)) == len(paths) <= limit


@pytest.mark.parametrize("title", [*LIMITS, IMPORT_HOPS])
def test_list_names_what_its_modules_define(title):
    """The first name in backquotes is defined in the module, or at least used there."""
    missing = []
    for path, text in entries(title):
        name = re.search(r"`(?:\w+\.)?(\w+)`", text)
        if name and name[1] not in (ROOT / path).read_text("utf-8"):
            missing.append((path, name[1]))
    assert missing == []


def test_import_hops_are_functions_of_their_modules():
    hops = entries(IMPORT_HOPS)
    names = [(path, re.findall(r"`(\w+)`", text)[0]) for path, text in hops]
    assert [(path, name) for path, name in names if name not in defined_names(path)] == []


def test_import_hops_are_within_their_limits():
    paths = [path for path, _ in entries(IMPORT_HOPS)]
    assert paths[0] == "lambdas/entry.py"
    assert paths[-1] == "ddbload/aws/http_client/connection.py"
    assert len(paths) <= MAX_HOPS
    assert len(set(paths)) <= MAX_HOP_MODULES
