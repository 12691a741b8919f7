"""Rules of the house that import-linter cannot hold: sizes, names, and who imports a test."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("bench", "ddbload", "infra", "lab", "lambdas", "localaws", "proof", "release")
MOST_MODULES, MOST_CLASSES, MOST_CODE_LINES = 176, 460, 35_309
"""Ceilings of ddbload: what is new takes the place of something."""
MOST_LINES = 500


def python_files(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(found) > 10
    return found


def public_names(path: Path) -> Iterator[str]:
    """Find the functions, classes and constants that a module defines for others."""
    for statement in ast.parse(path.read_bytes()).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [
                    node.id
                    for each in targets
                    for node in ast.walk(each)
                    if isinstance(node, ast.Name)
                ]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def test_ddbload_is_within_its_ceilings():
    modules = classes = lines = 0
    for path in python_files("ddbload"):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        code = code_lines(text, tree)
        modules += code > 0
        classes += sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
        lines += code
    assert modules <= MOST_MODULES
    assert classes <= MOST_CLASSES
    assert lines <= MOST_CODE_LINES


def code_lines(text: str, tree: ast.Module) -> int:
    """Count the lines that are not empty, a comment or a docstring."""
    documented = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in documented
        for number, line in enumerate(text.splitlines(), 1)
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_modules_have_at_most_500_lines(folder):
    paths = python_files("ddbload") if folder == "ddbload" else (ROOT / folder).rglob("*.py")
    lines = {path: len(path.read_bytes().splitlines()) for path in paths}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_modules_are_not_named_like_the_standard_librarys():
    names = {path for path in python_files(*FOLDERS) if path.stem in sys.stdlib_module_names}
    assert names == set()


def test_public_names_of_ddbload_mean_one_thing():
    """A name of two things misleads a search, and hides a rule that is kept twice."""
    homes = defaultdict(set)
    for path in python_files("ddbload"):
        for name in public_names(path):
            homes[name].add(path.relative_to(ROOT).as_posix())
    # Entry points are called main, and generic modules have type variables T and R.
    homes.pop("main", None)
    homes.pop("T", None)
    homes.pop("R", None)
    assert {name: sorted(paths) for name, paths in homes.items() if len(paths) > 1} == {}


def test_test_modules_import_no_test_module():
    """Helpers that several test modules share are in modules without tests."""
    importers = set()
    for path in python_files("tests"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            if any(
                name.startswith("tests.")
                and name.rpartition(".")[2].startswith("test_")
                and (ROOT / (name.replace(".", "/") + ".py")).is_file()
                for name in names
            ):
                importers.add(path.relative_to(ROOT).as_posix())
    assert importers == set()
