"""Fixtures of syntheses, for all folders of tests."""

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


@pytest.fixture(scope="session")
def synthesized_with_key(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The same with `-c log_key=true`."""
    return synthesize(tmp_path_factory.mktemp("cdk.out"), log_key="true")


@pytest.fixture(scope="session")
def template_with_key(synthesized_with_key: Synthesized) -> Template:
    """Its template."""
    return Template(synthesized_with_key.template)
