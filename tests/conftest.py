"""Fixtures for every test, and how many cases the property tests try."""

from __future__ import annotations

import functools
import gc
import os
import signal
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["tests.servers.fixtures", "tests.infra.fixtures"]

DEFAULT_CASES = 40
"""Cases of each law; `make property` tries 1,000."""

CASES = os.environ.get("DDBLOAD_PROPERTY_CASES")

settings.register_profile(
    "ddbload",
    max_examples=int(CASES or DEFAULT_CASES),
    deadline=None,
    # `make test` tries the same cases each time; `make property` tries new ones.
    derandomize=not CASES,
    print_blob=True,
    # A busy machine is no failure; pytest's timeout is there for what hangs.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ddbload")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in what a shell starts in the background. Processes that tests start would inherit it,
    # and never notice Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every session would read the same descriptions of AWS's services, for a fifth of a second each.
botocore.session.create_loader = functools.cache(  # type: ignore[attr-defined]
    botocore.session.create_loader  # type: ignore[attr-defined]
)

# The CDK's library is unpacked once, whatever HOME a test has.
JSII_CACHE = Path(__file__).parents[1] / "node_modules" / ".cache" / "jsii"
os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(JSII_CACHE))

LONGEST = "tests/e2e_stack/"

TOGETHER = {
    # One deployment, and the last tests look at what those before them did.
    LONGEST: "the stack",
    # One AWS on this machine, and what tests leave in its buckets.
    "tests/localaws/": "AWS on this machine",
    # One synthesis.
    "tests/asl/": "the template",
    "tests/infra/": "the template",
}
"""Folders whose tests stay in one process; elsewhere those of a file do."""


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Which tests one of pytest's processes runs. (Marks say it no more since pytest 9.2.)"""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((name for folder, name in TOGETHER.items() if file.startswith(folder)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Have `make test` run them in several processes."""
    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests out of each later garbage collection."""
    gc.freeze()
