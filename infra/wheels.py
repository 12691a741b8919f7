"""Wheels of compiled packages for the functions' platform, and what of them a layer carries.

pip downloads the wheels that `lambdas/extras-*.txt` names, once: they are kept in the user's cache.
Each wheel is checked against its hash in the list, also one that was kept. This module does not
import CDK.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from . import ROOT
from .errors import LayersTooLarge, WheelDamaged, WheelUnavailable

PACKAGES = {"parquet": "pyarrow", "zstd": "zstandard"}
"""The package of each extra. None of them needs others."""
MOST_BYTES = 250 * 1024 * 1024
"""Lambda's limit for a function's code and layers together, unzipped."""

# glibc of Amazon Linux 2, which python3.11 runs on, and of Amazon Linux 2023.
_GLIBC, _LATER_GLIBC = {"python3.11": "2_26"}, "2_34"
_MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
_WHEEL_DATA = re.compile(r"[^/]+\.data/(?:purelib|platlib)/(.+)")


def check_sizes(sizes: Mapping[str, int]) -> None:
    """Raise `LayersTooLarge` if code and layers exceed what a function may have."""
    if sum(sizes.values()) > MOST_BYTES:
        listed = ", ".join(f"{name} {size >> 20} MB" for name, size in sizes.items())
        raise LayersTooLarge(
            f"code and layers take {sum(sizes.values()) >> 20} MB unzipped ({listed}), and Lambda"
            f" allows {MOST_BYTES >> 20} MB: leave one of the extras out"
        )


def lock_file(runtime: str) -> Path:
    """Return the list of packages and hashes for a runtime's system."""
    return ROOT / "lambdas" / f"extras-{_GLIBC.get(runtime, _LATER_GLIBC)}.txt"


def fetch_wheel(package: str, runtime: str, architecture: str) -> Path:
    """Return the path of a package's wheel for the functions' platform, downloaded if needed.

    Raises `WheelUnavailable` and `WheelDamaged`.
    """
    requirement = _requirement(lock_file(runtime).read_text("utf-8"), package)
    platforms = list(_platforms(runtime, architecture))
    key = hashlib.sha256("\n".join([requirement, runtime, *platforms]).encode()).hexdigest()
    folder = _cache() / key[:32]
    if not folder.is_dir():
        _download(requirement, runtime, platforms, folder)
    found = list(folder.glob("*.whl"))
    if len(found) != 1:
        raise WheelDamaged(f"{folder} should have one wheel of {package}: delete the folder")
    digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
    if f"--hash=sha256:{digest}" not in requirement.split():
        raise WheelDamaged(
            f"{found[0]} has not the hash of {lock_file(runtime).name}: delete the file's folder"
        )
    return found[0]


def _requirement(lock: str, package: str) -> str:
    """Return a package's lines of a list with hashes."""
    found = re.search(rf"^{re.escape(package)}==(?:.*\\\n)*.*\n", lock, re.MULTILINE)
    assert found is not None, "a test compares extras and list"  # noqa: S101
    return found[0]


def _platforms(runtime: str, architecture: str) -> Iterator[str]:
    """Yield the platform tags of wheels that run there (PEP 600), the newest first."""
    machine = _MACHINES[architecture]
    newest = int(_GLIBC.get(runtime, _LATER_GLIBC).removeprefix("2_"))
    for minor in range(newest, 16, -1):
        yield f"manylinux_2_{minor}_{machine}"
    yield f"manylinux2014_{machine}"


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "ddbload" / "wheels"


def _download(requirement: str, runtime: str, platforms: Sequence[str], folder: Path) -> None:
    """Have pip download a wheel into a new folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    version = runtime.removeprefix("python")
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        listed = Path(temporary) / "requirements.txt"
        listed.write_text(requirement, "utf-8")
        wheels = Path(temporary) / "wheels"
        tags = [word for each in platforms for word in ("--platform", each)]
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--no-input", "--no-deps", "--only-binary", ":all:", "--require-hashes"),
            *("--python-version", version, "--implementation", "cp", *tags),
            *("--dest", str(wheels), "--requirement", str(listed)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no reason was given"]
            raise WheelUnavailable(
                f"pip could not download {requirement.split(maxsplit=1)[0]} for {runtime} on"
                f" {platforms[-1].removeprefix('manylinux2014_')}: {said[-1]} (synthesis needs pip,"
                " and PyPI or the index that pip is configured with, the first time)"
            )
        try:
            wheels.rename(folder)
        except OSError:
            # Another synthesis was faster.
            if not folder.is_dir():
                raise


def unpack_wheel(wheel: Path, folder: Path) -> int:
    """Unpack a wheel's modules, and return their size. Raises `WheelDamaged`."""
    size = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                name = member.filename
                if moved := _WHEEL_DATA.fullmatch(name):
                    name = moved[1]
                path = PurePosixPath(name)
                if path.is_absolute() or ".." in path.parts:
                    raise WheelDamaged(f"{wheel} has a file outside of it: {name}")
                if member.is_dir() or path.parts[0].endswith(".data"):
                    continue
                data = archive.read(member)
                size += len(data)
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
                # Lambda runs as another user, and the archive must not depend on the umask.
                target.chmod(0o644)
    except zipfile.BadZipFile as error:
        raise WheelDamaged(f"{wheel} is not a wheel ({error}): delete it") from None
    return size
