"""Wheels for layers: chosen by platform, checked by hash, kept, unpacked. None is downloaded."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from infra import wheels
from infra.errors import LayersTooLarge, WheelDamaged, WheelUnavailable
from infra.wheels import check_sizes, fetch_wheel, unpack_wheel

NAME = "zstandard-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"


def make_wheel(folder: Path, name: str = NAME, **files: str) -> Path:
    """Write a wheel that pip takes, with these files besides."""
    folder.mkdir(parents=True, exist_ok=True)
    info = "zstandard-1.0.dist-info"
    tags = "\n".join(f"Tag: cp311-cp311-{each}" for each in name[21:-4].split("."))
    contents = {
        "zstandard/__init__.py": "VALUE = 1\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: zstandard\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\n{tags}\n",
        f"{info}/RECORD": "",
        **files,
    }
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in contents.items():
            archive.writestr(each, text)
    return path


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> Path:
    """A wheel in a folder of its own, which the list of packages names, and an empty cache."""
    made = make_wheel(tmp_path / "index")
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    lock = tmp_path / "extras.txt"
    lines = ["zstandard==1.0 \\", f"    --hash=sha256:{'0' * 64} \\", f"    --hash=sha256:{digest}"]
    lock.write_text("\n".join(["# a list", "pyarrow==1.0 \\", "    --hash=sha256:1", *lines, ""]))
    monkeypatch.setattr(wheels, "lock_file", lambda _runtime: lock)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return made


@pytest.fixture
def commands(monkeypatch) -> list[list[str]]:
    """The commands that are run, which are recorded and copy the wheel there is."""
    made: list[list[str]] = []

    def run(command, **_):
        made.append(command)
        to = Path(command[command.index("--dest") + 1])
        to.mkdir()
        for each in (to.parents[4] / "index").iterdir():
            (to / each.name).write_bytes(each.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(wheels.subprocess, "run", run)
    return made


def test_pip_downloads_the_wheel_of_another_platform_once(wheel, monkeypatch):
    """By pip itself, from a folder in place of an index."""
    found = fetch_wheel("zstandard", "python3.11", "x86_64")
    assert (found.name, found.read_bytes()) == (NAME, wheel.read_bytes())
    wheel.unlink()
    monkeypatch.setattr(wheels.subprocess, "run", None)
    assert fetch_wheel("zstandard", "python3.11", "x86_64") == found


@pytest.mark.parametrize("when", ["downloaded", "kept"])
def test_wheel_with_another_hash_is_refused(wheel, commands, when):
    if when == "kept":
        found = fetch_wheel("zstandard", "python3.11", "x86_64")
        found.write_bytes(found.read_bytes() + b"\0")
    else:
        wheel.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(WheelDamaged, match="hash"):
        fetch_wheel("zstandard", "python3.11", "x86_64")


def test_missing_wheel_is_named_with_its_platform(wheel, monkeypatch):
    said = "ERROR: one\nERROR: No matching distribution found for zstandard==1.0\n"
    failed = subprocess.CompletedProcess([], 1, "", said)
    monkeypatch.setattr(wheels.subprocess, "run", lambda *_, **__: failed)
    words = r"zstandard==1\.0 for python3\.14 on aarch64: ERROR: No matching distribution"
    with pytest.raises(WheelUnavailable, match=words):
        fetch_wheel("zstandard", "python3.14", "arm64")
    assert not list(Path(wheel.parents[1] / "cache").rglob("*.whl"))


def test_wheel_is_unpacked_as_pip_installs_it(tmp_path):
    wheel = make_wheel(
        tmp_path,
        **{
            "zstandard-1.0.data/platlib/zstandard/_cffi.so": "compiled",
            "zstandard-1.0.data/scripts/zstd": "#!python",
        },
    )
    size = unpack_wheel(wheel, tmp_path / "python")
    files = [path for path in (tmp_path / "python").rglob("*") if path.is_file()]
    names = {path.relative_to(tmp_path / "python").as_posix() for path in files}
    assert {"zstandard/__init__.py", "zstandard/_cffi.so"} < names
    assert not [name for name in names if "data" in name or "scripts" in name]
    assert size == sum(path.stat().st_size for path in files)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}


@pytest.mark.parametrize("name", ["../outside.py", "/etc/passwd", "a/../../b"])
def test_wheel_with_a_file_outside_is_refused(tmp_path, name):
    with pytest.raises(WheelDamaged, match="outside"):
        unpack_wheel(make_wheel(tmp_path, **{name: ""}), tmp_path / "python")


def test_code_and_layers_are_limited_together():
    most = 250 * 1024 * 1024
    check_sizes({"the code": most - 10, "zstd": 10})
    with pytest.raises(
        LayersTooLarge, match=r"250 MB unzipped \(the code 100 MB, parquet 150 MB\)"
    ):
        check_sizes({"the code": 100 << 20, "parquet": (150 << 20) + 1})
