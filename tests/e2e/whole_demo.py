"""Set up `ddbload demo`, which deploys by itself."""

from __future__ import annotations

import pytest

from tests.cli.console import Console


@pytest.fixture
def demo(console: Console) -> Console:
    """Set up a console without AWS settings, except a few that must not matter."""
    for name in [name for name in console.env if name.startswith("AWS_")]:
        del console.env[name]
    console.env["AWS_PROFILE"] = "somebody"
    console.env["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:9"
    return console
