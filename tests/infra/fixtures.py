"""Fixtures of syntheses, for all folders of tests."""

from __future__ import annotations

import pytest

from infra.bundling import interpreter
from infra.settings import Settings
from tests.infra.synthesis import EXTRAS, Synthesized, synthesize
from tests.infra.template import Template


@pytest.fixture(scope="session")
def runtime_python() -> str:
    """Python of the default runtime's version; without one the test is skipped."""
    runtime = Settings().runtime
    found = interpreter(runtime)
    if found is None:
        pytest.skip(
            f"{runtime}, the default runtime, does not run from the PATH: put its bin folder there"
            " (pyenv's is below ~/.pyenv/versions)"
        )
    return found


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
