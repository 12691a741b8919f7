"""requirements.txt lists what pyproject.toml names, in the versions of the locks."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.cli.console import ROOT

PIN = re.compile(r"^([a-z0-9-]+)(?:\[[a-z0-9,-]+\])?==([^\s;\\]+)", re.MULTILINE)


def pins(name):
    return dict(PIN.findall((ROOT / name).read_text("utf-8")))


def test_versions_are_those_of_the_lock():
    listed = pins("requirements.txt")
    assert listed.items() <= pins("locks/dev.txt").items()
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    # One package a line, without hashes, and a heading for each group.
    assert len(lines) < 60
    assert all(PIN.fullmatch(line) or line.startswith("# ") or not line for line in lines)


def test_every_package_that_pyproject_names_is_listed_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    named = [each for names in lists for each in names]
    names = {re.match(r"[A-Za-z0-9._-]+", each)[0].lower() for each in named}
    listed = PIN.findall((ROOT / "requirements.txt").read_text("utf-8"))
    assert sorted(name for name, _ in listed) == sorted(names)
    # moto's extras are packages that the emulation imports.
    (moto,) = (each for each in named if each.startswith("moto["))
    assert moto in (ROOT / "requirements.txt").read_text("utf-8").splitlines()


def test_packages_that_functions_carry_are_listed():
    """Synthesis copies them from the environment, and refuses any other version."""
    assert pins("lambdas/requirements.txt").items() <= pins("requirements.txt").items()


@pytest.mark.parametrize("name", ["run", "deploy", "demo"])
def test_lists_of_parts_have_the_versions_of_the_whole(name):
    assert pins(f"locks/{name}.txt").items() <= pins("locks/dev.txt").items()
