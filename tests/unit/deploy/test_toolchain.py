"""The private folder, Node's version, and causes in cdk's output."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ddbload.deploy import toolchain
from ddbload.deploy.toolchain import (
    DEMO_TOOLS,
    DEPLOY_TOOLS,
    check_node,
    environment_without_aws,
    install,
    tools_folder,
)
from ddbload.errors import ToolsUnavailable
from tests.cli.console import ROOT


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """An installation from a wheel, whose programs write down how they were started."""
    data = tmp_path / "app"
    data.symlink_to(ROOT)
    monkeypatch.setattr(toolchain, "_DATA", data)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    path = tmp_path / "bin"
    path.mkdir()
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    told = tmp_path / "told"

    def program(name, does):
        (path / name).write_text(f'#!/bin/sh\n{does}\necho "$0 $*" >>{told}\nenv >>{told}\n')
        (path / name).chmod(0o755)

    program("node", "echo v22.1.0")
    program("npm", "mkdir node_modules")
    program("python", '[ "$2" = pip ] || { mkdir -p "$3/bin"; ln -s "$0" "$3/bin/python"; }')
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    monkeypatch.setattr(toolchain.sys, "executable", str(path / "python"))
    return told


def test_packages_are_installed_once_with_hashes_into_a_private_folder(alone):
    said = []
    tools = install(DEPLOY_TOOLS, said.append)
    folder = tools_folder(DEPLOY_TOOLS)
    assert tools.cdk == folder / "node_modules" / ".bin" / "cdk"
    for each in (folder, folder.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    told = alone.read_text()
    assert f"--require-hashes --only-binary :all: --requirement {ROOT}" in told.replace(
        str(toolchain._DATA), str(ROOT)
    )
    assert "npm ci --ignore-scripts" in told
    assert "--omit=dev --omit=optional" in told
    assert "secret" not in told
    assert len(said) == 2
    assert list(Path.cwd().iterdir()) == []

    assert install(DEPLOY_TOOLS, said.append) == tools
    assert len(said) == 2


def test_interrupted_installation_begins_anew(alone):
    folder = tools_folder(DEPLOY_TOOLS)
    (folder / "node_modules").mkdir(parents=True)
    folder.parent.chmod(0o700)
    folder.chmod(0o700)
    install(DEPLOY_TOOLS, lambda _: None)
    assert (folder / ".installed").exists()


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_folder_that_others_may_write_is_refused(alone, mode):
    folder = tools_folder(DEPLOY_TOOLS).parent
    folder.mkdir(parents=True)
    folder.chmod(mode)
    with pytest.raises(ToolsUnavailable, match="others may write to it"):
        install(DEPLOY_TOOLS, lambda _: None)
    assert "pip" not in (alone.read_text() if alone.exists() else "")


def test_old_and_missing_node_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolsUnavailable, match="no node on the PATH: install"):
        check_node()
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho v18.20.1\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(ToolsUnavailable, match=r"18\.20\.1, which is too old: install Node\.js 22"):
        check_node()


def test_programs_get_no_credentials(monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    found = environment_without_aws()
    assert not [name for name in found if name.startswith(("AWS_", "PYTHONPATH"))]


@pytest.mark.parametrize("tools", [DEPLOY_TOOLS, DEMO_TOOLS], ids=lambda tools: tools.lock)
def test_lists_are_parts_of_the_one_that_is_tested(tools):
    def entries(name):
        text = (ROOT / name).read_text()
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        return "\n".join(lines).replace("\\\n", "").splitlines()

    known = set(entries("locks/dev.txt"))
    mine = entries(f"locks/{tools.lock}")
    assert len(mine) >= 15
    assert set(mine) <= known
    unwanted = ("pyarrow==", "mypy==", "pytest==", "ruff==", "moto==", "awslambdaric==")
    allowed = () if tools is DEPLOY_TOOLS else ("moto==", "awslambdaric==")
    assert [
        line for line in mine if line.startswith(unwanted) and not line.startswith(allowed)
    ] == []
