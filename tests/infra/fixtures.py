"""The one synthesis, for every folder of tests."""

from __future__ import annotations

import pytest

from tests.infra.synthesis import Synthesized, synthesize
from tests.infra.template import Template


@pytest.fixture(scope="session")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The cloud assembly of the stack, with `tests.infra.synthesis.CONTEXT`."""
    return synthesize(tmp_path_factory.mktemp("cdk.out"))


@pytest.fixture(scope="session")
def template(synthesized: Synthesized) -> Template:
    """Its template."""
    return Template(synthesized.template)
