"""Fixtures for every test, and how many cases the property tests try."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers.fixtures", "tests.infra.fixtures"]

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

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in what a shell starts in the background. Processes that tests start would inherit it,
    # and never notice Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
