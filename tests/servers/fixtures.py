"""Fixtures of the servers, for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.dynalite import dynalite


@pytest.fixture(scope="session")
def dynalite_endpoint() -> Iterator[str]:
    """The URL of one dynalite for the whole run: a test makes tables under names of its own."""
    with dynalite() as endpoint:
        yield endpoint
