"""Tests of the functions' asset."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

from bench.start import IN_RUNTIME
from infra import ROOT, bundling
from infra.bundling import REQUIREMENTS
from infra.errors import DistributionDamaged, DistributionNotPure
from infra.settings import Settings

MODULES = ("preflight", "import_chunk", "report", "on_upload")
THIS = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The runtime of the Python that runs the tests, which can compile for it."""
DEFAULT = Settings().runtime


@pytest.fixture(scope="module")
def asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asset")
    bundling.bundle(folder, THIS)
    return folder


def contents(folder: Path) -> dict[str, tuple[int, str]]:
    return {
        path.relative_to(folder).as_posix(): (
            path.stat().st_mode & 0o777,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_asset_is_the_same_each_time(asset: Path, tmp_path: Path):
    before = os.umask(0o077)
    try:
        bundling.bundle(tmp_path, THIS)
    finally:
        os.umask(before)
    assert contents(tmp_path) == contents(asset)


def test_asset_is_pure_python(asset: Path):
    names = contents(asset)
    kinds = {Path(name).suffix for name in names if ".dist-info/" not in name}
    assert kinds == {".py", ".pyc", ".typed"}
    metadata = {name.partition("/")[2] for name in names if ".dist-info/" in name}
    # What an installer writes differs between machines.
    assert not metadata & {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def test_asset_has_unchecked_bytecode_of_each_source(asset: Path):
    sources = list(asset.rglob("*.py"))
    assert len(list(asset.rglob("*.pyc"))) == len(sources) > 200
    for source in sources:
        compiled = Path(cache_from_source(str(source))).read_bytes()
        assert compiled[:8] == MAGIC_NUMBER + b"\1\0\0\0", "hashed, and not checked"
        assert f"/var/task/{source.relative_to(asset).as_posix()}".encode() in compiled


@pytest.mark.usefixtures("runtime_python")
def test_default_runtime_is_compiled_by_its_python_on_the_path(tmp_path: Path):
    for name in ("a", "another"):
        bundling.bundle(tmp_path / name, DEFAULT)
    found = contents(tmp_path / "a")
    assert found == contents(tmp_path / "another")
    tag = DEFAULT.replace("python", "cpython-").replace(".", "")
    assert f"lambdas/__pycache__/preflight.{tag}.pyc" in found


@pytest.mark.parametrize("said", [None, "exit 127", "echo cpython-312"])
def test_asset_without_a_python_of_the_runtime_has_no_bytecode_and_says_so(
    said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
):
    monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-310")
    if said is not None:
        (tmp_path / DEFAULT).write_text(f"#!/bin/sh\n{said}\n")
        (tmp_path / DEFAULT).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    bundling.bundle(tmp_path / "asset", DEFAULT)
    assert not list(tmp_path.rglob("*.pyc"))
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ddbload: {DEFAULT} was not found, so the functions' asset has no byte")


def test_asset_has_the_handlers_without_the_command_line(asset: Path):
    assert {path.name for path in asset.iterdir() if path.suffix != ".dist-info"} == {
        "__pycache__",
        "aws_lambda_powertools",
        "ddbload",
        "jmespath",
        "lambdas",
        "typing_extensions.py",
    }
    assert (asset / "ddbload" / "steps" / "preflight.py").is_file()
    for name in ("cli", "convert", "planning", "verification", "runs", "api.py"):
        assert not (asset / "ddbload" / name).exists(), name
    for module in MODULES:
        assert (asset / "lambdas" / f"{module}.py").is_file()


def test_asset_has_every_module_that_it_imports(asset: Path):
    ddbload = asset / "ddbload"
    # Mode `plan` and Parquet files are imported by a run that needs them.
    assert (ddbload / "steps" / "plan_mode.py").is_file()
    assert (ddbload / "source" / "parquet" / "arrow_to_ddb_json.py").is_file()
    imported = {
        name
        for path in (*asset.glob("ddbload/**/*.py"), *asset.glob("lambdas/*.py"))
        for name in re.findall(
            r"^ *(?:from|import) (ddbload[\w.]*)", path.read_text(), re.MULTILINE
        )
    }
    assert len(imported) > 80
    for name in imported:
        place = asset.joinpath(*name.split("."))
        assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), name


def test_asset_is_small(asset: Path):
    sizes = [path.stat().st_size for path in asset.rglob("*") if path.is_file()]
    assert sum(sizes) < 5_500_000
    assert len(sizes) < 700


@pytest.mark.parametrize("which", ["this", "default"])
def test_handlers_import_with_boto3_alone(
    asset: Path, tmp_path: Path, which: str, request: pytest.FixtureRequest
):
    """As in Lambda: the asset, the standard library, and the runtime's boto3."""
    python = sys.executable if which == "this" else request.getfixturevalue("runtime_python")
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    for name, top in IN_RUNTIME.items():
        (runtime / top).symlink_to(str(distribution(name).locate_file(top)))
    program = (
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        + "".join(f"import lambdas.{module}\n" for module in MODULES)
        + "".join(f"assert callable(lambdas.{module}.handler)\n" for module in MODULES)
        + "import ddbload\n"
        + "assert ddbload.__file__.startswith(sys.argv[1])\n"
        + "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [python, "-I", "-S", "-B", "-c", program, str(asset), str(runtime)],
        env={"PATH": os.environ["PATH"], "AWS_REGION": "eu-west-1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not {"click", "rich", "aws_cdk", "aws_xray_sdk", "pydantic"} & set(done.stdout.split())


def test_pins_match_the_lock():
    pinned = blocks(REQUIREMENTS.read_text("utf-8"))
    project = blocks((ROOT / "locks" / "dev.txt").read_text("utf-8"))
    assert len(pinned) == 3
    for name, lines in pinned.items():
        assert lines == project[name]
        assert any("--hash=sha256:" in line for line in lines)


def blocks(requirements: str) -> dict[str, list[str]]:
    """Each requirement's lines, without comments and line ends."""
    found: dict[str, list[str]] = {}
    for line in requirements.splitlines():
        if match := re.match(r"([a-z0-9-]+)==", line):
            lines = found.setdefault(match[1], [])
        if line.strip() and not line.strip().startswith("#"):
            lines.append(line.rstrip(" \\"))
    return found


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one installed distribution, which a test may damage."""
    site = tmp_path / "site"
    site.mkdir()
    found = distribution("jmespath")
    for name in ("jmespath", "jmespath-1.1.0.dist-info"):
        shutil.copytree(str(found.locate_file(name)), site / name)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("jmespath==1.1.0 \\\n    --hash=sha256:0\n", "utf-8")
    monkeypatch.setattr(bundling, "REQUIREMENTS", requirements)
    copy = Distribution.at(site / "jmespath-1.1.0.dist-info")
    monkeypatch.setattr(bundling, "distribution", lambda _name: copy)
    return site


def test_bundle_refuses_a_changed_file(installed: Path, tmp_path: Path):
    with (installed / "jmespath" / "parser.py").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(DistributionDamaged, match=r"jmespath has a changed jmespath/parser\.py"):
        bundling.bundle(tmp_path / "asset", THIS)


def test_bundle_refuses_compiled_code(installed: Path, tmp_path: Path):
    with (installed / "jmespath-1.1.0.dist-info" / "RECORD").open("a") as file:
        file.write("jmespath/fast.cpython-313-aarch64-linux-gnu.so,,\n")
    with pytest.raises(DistributionNotPure, match="compiled code"):
        bundling.bundle(tmp_path / "asset", THIS)
