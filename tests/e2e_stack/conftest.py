"""One AWS on this machine for all these tests, with the stack deployed once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localaws import LocalAws
from tests.cli.console import Console
from tests.e2e_stack.deployed import SOURCES, Cloud, Stack

NAME = "ddbload"
HASTY = "ddbload-hasty"

# What becomes of uploads. Prefixes are tests' own; so are the tables.
UPLOADS: list[dict[str, Any]] = [
    {"prefix": "odd/", "table": "up-odd", "options": {"chunk_bytes": 2000}},
    {
        "prefix": "typed/",
        "table": "up-typed",
        "types": {"year": "N", "ok": "BOOL"},
        "source": {"delimiter": ";", "quote": "'"},
    },
    {"prefix": "names/", "table": "up-names"},
    {"prefix": "names/elsewhere/", "table": "up-elsewhere"},
    {"prefix": "strict/", "table": "up-strict", "options": {"max_rejects": 0}},
    {"prefix": "permitted/", "table": "up-permitted"},
    {"prefix": "early/", "table": "up-early"},
    {
        "prefix": "slowly/",
        "table": "up-slowly",
        "options": {"chunk_bytes": 500, "workers": 1, "max_wcu": 20},
    },
    {"bucket": SOURCES, "prefix": "uploads/", "table": "up-sources"},
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What judges all that happened comes last."""
    last = ("test_silence", "test_permissions")
    items.sort(key=lambda item: item.path.parent == HERE and item.path.stem in last)


HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("e2e_stack")


@pytest.fixture(scope="session")
def log_folder(folder: Path) -> Path:
    """All that functions write to their logs."""
    made = folder / "logs"
    made.mkdir()
    return made


@pytest.fixture(scope="session")
def recorded_calls(folder: Path) -> Path:
    """A JSON line for each call that a role made."""
    return folder / "calls.jsonl"


@pytest.fixture(scope="session")
def cloud(folder: Path, log_folder: Path, recorded_calls: Path) -> Iterator[Cloud]:
    words = (
        "--log-folder",
        str(log_folder),
        "--record-calls",
        str(recorded_calls),
        "--enforce-iam",
    )
    with LocalAws(*words) as aws:
        yield Cloud(aws, folder)


@pytest.fixture(scope="session")
def stack(cloud: Cloud) -> Stack:
    """As deployed by default, with some uploads mapped."""
    return cloud.deploy(NAME, UPLOADS)


@pytest.fixture(scope="session")
def hasty(cloud: Cloud) -> Stack:
    """A second one beside it, whose functions have two seconds for what they do."""
    return cloud.deploy(HASTY, [], timeout_seconds=6, reserve_seconds=4)


@pytest.fixture
def console(cloud: Cloud, stack: Stack, tmp_path: Path) -> Iterator[Console]:
    """An empty folder to run `ddbload` in, as somebody does who has the stack's account."""
    folder = tmp_path / "folder"
    folder.mkdir()
    made = Console(folder, cloud.environment)
    yield made
    assert made.leftovers() == []
