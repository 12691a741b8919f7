"""Fixtures for every test, and how many cases the property tests try."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers.fixtures"]

DEFAULT_CASES = 550
"""For each law: more than 10,000 over all of them."""

settings.register_profile(
    "ddbload",
    max_examples=int(os.environ.get("DDBLOAD_PROPERTY_CASES", DEFAULT_CASES)),
    deadline=None,
    derandomize=False,
    print_blob=True,
    # A busy machine is no failure; pytest's timeout is there for what hangs.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ddbload")
