"""Fixtures of syntheses, for all folders of tests."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.bundling import interpreter
from infra.settings import Settings
from tests.infra.synthesis import EXTRAS, ROOT, Synthesized, run, synthesize
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


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
        subprocess.run([*command, folder, ROOT], check=True, capture_output=True)

    (made,) = made_once(tmp_path_factory, "wheel", build).iterdir()
    return made


def made_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]
) -> Path:
    """Make a folder that all processes of one run of the tests share."""
    base = tmp_path_factory.getbasetemp()
    # Each process of pytest-xdist has a folder within that of the run.
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = root / f"{name}.unfinished"
            unfinished.mkdir(exist_ok=True)
            make(unfinished)
            unfinished.rename(folder)
    return folder


@pytest.fixture(scope="session")
def page_app(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The app of docs/construct.md with both of its pipelines, made by the installed wheel."""

    def make(folder: Path) -> None:
        synthesize_page(wheel, folder)

    return Synthesized(made_once(tmp_path_factory, "page_app", make) / "out", "shop")


def synthesize_page(wheel: Path, folder: Path) -> None:
    site, file, out = folder / "site", folder / "app.py", folder / "out"
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *quiet, "--target", site, wheel],
        check=True,
        capture_output=True,
    )
    page = (ROOT / "docs" / "construct.md").read_text("utf-8")
    app, second = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    last = "        load.add_outputs()\n"
    assert last in app
    file.write_text(app.replace(last, last + textwrap.indent(second, " " * 8)), "utf-8")
    program = str(Path(__file__).with_name("page_app.py"))
    used = run(sys.executable, program, str(file), str(out), PYTHONPATH=str(site))
    assert Path(used.strip()) == site / "ddbload_cdk" / "__init__.py"
