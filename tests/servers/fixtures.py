"""Server fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.dynalite import dynalite


@pytest.fixture(scope="session")
def dynalite_endpoint() -> Iterator[str]:
    """Endpoint URL of one dynalite for the whole run; each test uses unique table names."""
    with dynalite() as endpoint:
        yield endpoint
