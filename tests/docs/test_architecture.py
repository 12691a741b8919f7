"""docs/architecture.md lists the modules that answer a question, and the hops of an import."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
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


def imported_modules(path: str) -> set[str]:
    """Return the modules that a file imports, at its top or where it uses them."""
    nodes = ast.walk(ast.parse(Path(ROOT / path).read_text("utf-8")))
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def defined_names(path: str) -> set[str]:
    """Return the functions, methods and classes that a file defines."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    tree = ast.walk(ast.parse(Path(ROOT / path).read_text("utf-8")))
    return {node.name for node in tree if isinstance(node, kinds)}


def module_name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


@pytest.mark.parametrize("title", [*LIMITS, IMPORT_HOPS])
def test_list_names_existing_modules(title):
    paths = [path for path, _ in entries(title)]
    assert len(paths) >= 4
    assert [path for path in paths if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(("title", "limit"), LIMITS.items())
def test_list_is_within_its_limit(title, limit):
    paths = [path for path, _ in entries(title)]
    assert len(set(paths)) == len(paths) <= limit


@pytest.mark.parametrize("title", LIMITS)
def test_list_names_neighbours_that_import_each_other(title):
    paths = [path for path, _ in entries(title)]
    unrelated = [
        (one, other)
        for one, other in pairwise(paths)
        if module_name(other) not in imported_modules(one)
        and module_name(one) not in imported_modules(other)
    ]
    assert unrelated == []


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


def test_import_hops_import_each_other():
    """Each hop's module imports that of another hop, or is imported by it."""
    paths = sorted({path for path, _ in entries(IMPORT_HOPS)})
    imports = {path: imported_modules(path) for path in paths}
    alone = [
        path
        for path in paths
        if not any(
            module_name(path) in imports[other] or module_name(other) in imports[path]
            for other in paths
            if other != path
        )
    ]
    assert alone == []
