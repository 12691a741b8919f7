"""The functions' asset: the handlers, the modules that they import, and packages besides boto3.

Files are copied, which needs neither Docker nor network. Packages are pinned by
lambdas/requirements.txt, come from the environment of the synthesis, and are checked against the
hashes in their RECORD files. Bytecode is beside the sources if a Python of the runtime's version
is here. The same sources and the same Python make the same asset, on every architecture.
"""

from __future__ import annotations

import atexit
import base64
import csv
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import (
    Distribution,
    FileHash,
    PackageNotFoundError,
    PackagePath,
    distribution,
)
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

import ddbload

from . import ROOT
from .errors import DistributionDamaged, DistributionMissing, DistributionNotPure

CODE = Path(ddbload.__file__).resolve().parent.parent
"""Folder that has the package `ddbload`."""
REQUIREMENTS = ROOT / "lambdas" / "requirements.txt"
"""Pinned distributions that the functions need besides boto3."""

_COMPILED = (".so", ".pyd", ".dylib", ".dll")
_UNUSED = re.compile(
    r"aws_lambda_powertools/(event_handler|utilities/(?!__init__|jmespath_utils|typing)).*"
)
"""What no handler imports of Powertools: most of it."""
_METADATA = re.compile(r"METADATA|WHEEL|LICEN[CS]E.*|NOTICE.*|licenses/.+")
"""Files of a .dist-info folder to copy. Files that the installer writes differ by machine."""


@cache
def bundled(runtime: str) -> Path:
    """Return a folder with the asset, which is removed when the process ends. Raises as `bundle`.

    All pipelines of an app share it.
    """
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    bundle(Path(folder.name), runtime)
    return Path(folder.name)


def bundle(to: Path, runtime: str) -> None:
    """Write the asset into an empty folder, with bytecode for a runtime such as python3.13.

    Raises `DistributionMissing`, `DistributionDamaged` or `DistributionNotPure`.
    """
    for module, source in _imported_modules():
        _write(to / module, source.read_bytes())
    for name, version in pins(REQUIREMENTS.read_text("utf-8")).items():
        for path, data in _installed(name, version):
            _write(to / path, data)
    python = interpreter(runtime)
    if python is None:
        print(  # noqa: T201 - beside what cdk shows
            f"ddbload: {runtime} was not found, so the functions' asset has no bytecode and cold"
            f" starts take longer: put {runtime} on the PATH, or synthesize with it",
            file=sys.stderr,
        )
    else:
        _compile(to, python)


def interpreter(runtime: str) -> str | None:
    """Return a Python of a runtime's version: this one, or that on the PATH; None if neither is."""
    tag = runtime.replace("python", "cpython-").replace(".", "")
    if sys.implementation.cache_tag == tag:
        return sys.executable
    show = "import sys; print(sys.implementation.cache_tag, sys.executable)"
    try:
        shown = subprocess.run(  # noqa: S603
            [runtime, "-c", show], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    # A version manager's may be there and not run.
    found, _, path = shown.stdout.strip().partition(" ")
    return path if shown.returncode == 0 and found == tag else None


def _compile(folder: Path, python: str) -> None:
    """Write `__pycache__` beside the sources, the same each time.

    In one process, since bytecode depends on what the interpreter has compiled before. The hashes
    are not checked: archives do not keep the times of files, and the sources cannot change.
    """
    words = ["-S", "-P", "-m", "compileall", "-qq", "--invalidation-mode", "unchecked-hash"]
    environment = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
    subprocess.run(  # noqa: S603
        [python, *words, "-s", str(folder), "-p", "/var/task", str(folder)],
        env={**environment, "PYTHONHASHSEED": "0"},
        umask=0o022,
        check=True,
    )


class _Finder(ModuleFinder):
    """Finder of our own modules, in an environment that may have thousands of others."""

    def find_module(self, name: str, path: Any, parent: Any = None) -> Any:
        if path is None and name not in ("ddbload", "lambdas"):
            raise ImportError(name)
        return super().find_module(name, path, parent)


def _imported_modules() -> list[tuple[Path, Path]]:
    """Return all modules that handlers import, also later: paths in the asset, and their files.

    Those of the command line (cli, convert, planning, runs, verification) are not among them.
    """
    finder = _Finder([str(ROOT), str(CODE)])
    for handler in sorted((ROOT / "lambdas").glob("[!_]*.py")):
        finder.import_hook(f"lambdas.{handler.stem}")
    files = (getattr(each, "__file__", None) for each in finder.modules.values())
    paths = [Path(file) for file in files if file is not None]
    return sorted(
        (path.relative_to(ROOT if path.is_relative_to(ROOT) else CODE), path) for path in paths
    )


def pins(requirements: str) -> dict[str, str]:
    """Return the names and versions that a requirements file pins."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", requirements, re.MULTILINE))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    # Lambda runs as another user, and the archive must not depend on the umask.
    path.chmod(0o644)


def _installed(name: str, version: str) -> Iterator[tuple[PackagePath, bytes]]:
    """Read a distribution's files, each with its path in the asset."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise DistributionMissing(_reinstall_advice(name, version, "is not installed")) from None
    if found.version != version:
        raise DistributionMissing(
            _reinstall_advice(name, version, f"is installed as {found.version}")
        )
    record = found.read_text("RECORD")
    if record is None:
        raise DistributionMissing(_reinstall_advice(name, version, "has no record of its files"))
    for path in _recorded(record):
        if path.suffix in _COMPILED:
            raise DistributionNotPure(
                f"{name} {version} has compiled code ({path}): take a version without"
            )
        if _belongs_in_asset(path):
            yield path, _content(found, path)


def _recorded(record: str) -> Iterator[PackagePath]:
    """Read the paths of a RECORD.

    From Python 3.12 on, a distribution's `files` leaves out those that are missing.
    """
    for name, digest, *_ in csv.reader(record.splitlines()):
        path = PackagePath(name)
        path.hash = FileHash(digest) if digest else None
        yield path


def _belongs_in_asset(path: PackagePath) -> bool:
    if ".." in path.parts or path.is_absolute() or "__pycache__" in path.parts:
        # Scripts are outside the packages, and caches depend on the Python version.
        return False
    if _UNUSED.fullmatch(path.as_posix()):
        return False
    folder, _, rest = path.as_posix().partition("/")
    return not folder.endswith(".dist-info") or bool(_METADATA.fullmatch(rest))


def _content(found: Distribution, path: PackagePath) -> bytes:
    try:
        data = Path(str(found.locate_file(path))).read_bytes()
    except OSError as error:
        raise DistributionDamaged(
            _reinstall_advice(found.name, found.version, f"lacks {path} ({error.strerror})")
        ) from None
    if path.hash is not None:
        digest = base64.urlsafe_b64encode(hashlib.new(path.hash.mode, data).digest())
        if digest.rstrip(b"=").decode() != path.hash.value:
            raise DistributionDamaged(
                _reinstall_advice(found.name, found.version, f"has a changed {path}")
            )
    return data


def _reinstall_advice(name: str, version: str, what: str) -> str:
    return (
        f"{name} {what} in the environment that runs synthesis: install {name}=={version} there"
        " again (`make setup`, or pip with requirements.txt or ddbload[cdk])"
    )
