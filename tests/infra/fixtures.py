"""Fixtures of syntheses, for all folders of tests."""

from __future__ import annotations

import pytest

from tests.infra.synthesis import EXTRAS, Synthesized, synthesize
from tests.infra.template import Template


@pytest.fixture(scope="session")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The cloud assembly of the stack, with `tests.infra.synthesis.CONTEXT`."""
    return synthesize(tmp_path_factory.mktemp("cdk.out"))


@pytest.fixture(scope="session")
def template(synthesized: Synthesized) -> Template:
    """Its template."""
    return Template(synthesized.template)


@pytest.fixture(scope="session")
def synthesized_with_all(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The same with everything that is off by default."""
    return synthesize(tmp_path_factory.mktemp("cdk.out"), **EXTRAS)


@pytest.fixture(scope="session")
def template_with_all(synthesized_with_all: Synthesized) -> Template:
    """Its template."""
    return Template(synthesized_with_all.template)
