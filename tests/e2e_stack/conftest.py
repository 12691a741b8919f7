"""One AWS on this machine for all these tests, with the stack deployed once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localaws import LocalAws
from tests.cli.console import Console
from tests.e2e_stack.deployed import SOURCES, Cloud, Stack
from tests.e2e_stack.files import plain
from tests.e2e_stack.runs import Load, Run, load

HERE = Path(__file__).parent
NAME = "ddbload"
HASTY = "ddbload-hasty"
PAGE = 100
"""Names on one page of a listing; S3's own pages of 1,000 would need more objects."""
OVERDUE = "1000"
"""Seconds to keep in reserve: more than there are, so a function does the least that it may."""

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
    {
        "prefix": "permitted/slowly/",
        "table": "up-permitted",
        "options": {"chunk_bytes": 500, "workers": 1, "max_wcu": 20},
    },
    {"prefix": "early/", "table": "up-early"},
    {
        "prefix": "slowly/",
        "table": "up-slowly",
        "options": {"chunk_bytes": 500, "workers": 1, "max_wcu": 20},
    },
    {"prefix": "ordered/", "table": "up-ordered"},
    {"prefix": "exports/", "table": "up-changes"},
    {"prefix": "moved/", "table": "up-moved"},
    {"bucket": SOURCES, "prefix": "uploads/", "table": "up-sources"},
    {
        "prefix": "updated/",
        "table": "up-updated",
        "types": {"n": "N", "old": "N"},
        "source": {"match": "name"},
        "mapping": {"drop": ["old"]},
        "where": ["id!=d"],
        "options": {"mode": "update", "only_existing": True, "condition": "n = {old}"},
    },
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run those that judge all calls last."""
    last = ("test_silence", "test_permissions")
    places = {HERE / f"{name}.py": place for place, name in enumerate(last, 1)}
    items.sort(key=lambda item: places.get(item.path, 0))


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
        # A message becomes a dead letter after 20 of them.
        "--retry-seconds",
        "0.1",
        "--state-retry-seconds",
        "0.5",
        "--log-folder",
        str(log_folder),
        "--record-calls",
        str(recorded_calls),
        "--enforce-iam",
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MOTO_S3_DEFAULT_MAX_KEYS", str(PAGE))
        with LocalAws(*words) as aws:
            yield Cloud(aws, folder)


@pytest.fixture(scope="session")
def stack(cloud: Cloud) -> Stack:
    """Stack with default settings and some upload rules."""
    return cloud.deploy(NAME, UPLOADS, app="tests.e2e_stack.two_stacks")


@pytest.fixture(scope="session")
def hasty(stack: Stack) -> Stack:
    """A second one beside it, whose functions have two seconds for what they do."""
    return Stack(stack.cloud, HASTY, stack.cloud.outputs(HASTY))


@pytest.fixture(scope="session")
def hasty_loads(hasty: Stack) -> dict[str, Load]:
    """Stack whose functions have little time, so that imports take many invocations."""
    # A row is a write unit, so it takes eight seconds, of which an invocation has two.
    slowly = load(hasty, plain(401), run="import", max_wcu=50)
    # Preflight has no time at all: it reads one piece of the file, and no more.
    hasty.configure("preflight", DDBLOAD_RESERVE_SECONDS=OVERDUE)
    pieces = load(hasty, plain(200), run="preflight", max_row_bytes=1500, chunk_bytes=500)
    return {"import": slowly, "preflight": pieces}


@pytest.fixture(scope="session")
def hasty_listing(hasty: Stack, hasty_loads: dict[str, Load]) -> tuple[Run, str]:
    """Return the run of a prefix whose listing and reading take several invocations; its table."""
    assert hasty_loads
    table = hasty.cloud.table()
    for number in range(3):
        hasty.put(plain(2, first=2 * number), key=f"listed/{number}.csv")
    payload = {
        "run": {"id": "listed"},
        "source": {"bucket": SOURCES, "prefix": "listed/"},
        "target": {"table": table},
    }
    return Run(hasty, "listed", hasty.start(payload, "listed")), table


@pytest.fixture
def console(cloud: Cloud, stack: Stack, forked: Path, tmp_path: Path) -> Iterator[Console]:
    """An empty folder to run `ddbload` in, as somebody does who has the stack's account."""
    folder = tmp_path / "folder"
    folder.mkdir()
    made = Console(folder, cloud.environment, forked)
    yield made
    assert made.leftovers() == []
