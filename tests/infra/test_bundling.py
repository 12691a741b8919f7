"""Tests of the functions' asset."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from infra import ROOT, bundling
from infra.bundling import REQUIREMENTS
from infra.errors import DistributionDamaged, DistributionNotPure

MODULES = ("preflight", "import_chunk", "report", "on_upload")
RUNTIME = {
    "boto3": "boto3",
    "botocore": "botocore",
    "python-dateutil": "dateutil",
    "s3transfer": "s3transfer",
    "six": "six.py",
    "urllib3": "urllib3",
}
"""Packages of Lambda's runtime, except jmespath, which the asset must provide here."""


@pytest.fixture(scope="module")
def asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asset")
    bundling.bundle(folder)
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
        bundling.bundle(tmp_path)
    finally:
        os.umask(before)
    assert contents(tmp_path) == contents(asset)


def test_asset_is_pure_python(asset: Path):
    names = contents(asset)
    kinds = {Path(name).suffix for name in names if ".dist-info/" not in name}
    assert kinds == {".py", ".typed"}
    assert not [name for name in names if "__pycache__" in name]
    metadata = {name.partition("/")[2] for name in names if ".dist-info/" in name}
    # What an installer writes differs between machines.
    assert not metadata & {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def test_asset_has_the_handlers_without_the_command_line(asset: Path):
    assert {path.name for path in asset.iterdir() if path.suffix != ".dist-info"} == {
        "aws_lambda_powertools",
        "ddbload",
        "jmespath",
        "lambdas",
        "typing_extensions.py",
    }
    assert (asset / "ddbload" / "steps" / "preflight.py").is_file()
    for name in ("cli", "convert", "plan", "runs", "__main__.py"):
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
    assert sum(sizes) < 3_600_000
    assert len(sizes) < 600


@pytest.mark.parametrize("python", [sys.executable, "python3.14"], ids=["this", "3.14"])
def test_handlers_import_with_boto3_alone(asset: Path, tmp_path: Path, python: str):
    """As in Lambda: the asset, the standard library, and the runtime's boto3."""
    if not runs(python):
        pytest.skip(f"no {python} here, which is the default runtime")
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    for name, top in RUNTIME.items():
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


def runs(python: str) -> bool:
    """Whether there is such a Python: a version manager's may be there and not run."""
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


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
        bundling.bundle(tmp_path / "asset")


def test_bundle_refuses_compiled_code(installed: Path, tmp_path: Path):
    with (installed / "jmespath-1.1.0.dist-info" / "RECORD").open("a") as file:
        file.write("jmespath/fast.cpython-313-aarch64-linux-gnu.so,,\n")
    with pytest.raises(DistributionNotPure, match="compiled code"):
        bundling.bundle(tmp_path / "asset")
