"""The functions' asset: the handlers, the modules that they import, and packages besides boto3.

Files are copied, which needs neither Docker nor network and makes the same asset, with the same
hash, on every architecture and Python. Packages are pinned by lambdas/requirements.txt, come from
the environment of the synthesis, and are checked against the hashes in their RECORD files.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import re
from collections.abc import Iterator
from importlib.metadata import (
    Distribution,
    FileHash,
    PackageNotFoundError,
    PackagePath,
    distribution,
)
from modulefinder import ModuleFinder
from pathlib import Path

from infra import ROOT
from infra.errors import DistributionDamaged, DistributionMissing, DistributionNotPure

REQUIREMENTS = ROOT / "lambdas" / "requirements.txt"
"""Pinned distributions that the functions need besides boto3."""

_COMPILED = (".so", ".pyd", ".dylib", ".dll")
_UNUSED = "aws_lambda_powertools/event_handler/openapi/"
"""Pages for the documentation of web services: a third of the asset, which no handler imports."""
_METADATA = re.compile(r"METADATA|WHEEL|LICEN[CS]E.*|NOTICE.*|licenses/.+")
"""Files of a .dist-info folder to copy. Files that the installer writes differ by machine."""


def bundle(to: Path) -> None:
    """Write the asset into an empty folder.

    Raises `DistributionMissing`, `DistributionDamaged` or `DistributionNotPure`.
    """
    for source in _imported_modules():
        _write(to / source.relative_to(ROOT), source.read_bytes())
    for name, version in pins(REQUIREMENTS.read_text("utf-8")).items():
        for path, data in _installed(name, version):
            _write(to / path, data)


def _imported_modules() -> list[Path]:
    """Return the files of all modules that handlers import, also later, in order.

    The packages of the command line (cli, convert, plan, runs, verify) are not among them.
    """
    finder = ModuleFinder([str(ROOT)])
    for handler in sorted((ROOT / "lambdas").glob("[!_]*.py")):
        finder.import_hook(f"lambdas.{handler.stem}")
    files = (getattr(each, "__file__", None) for each in finder.modules.values())
    return sorted(Path(file) for file in files if file is not None)


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
    if path.as_posix().startswith(_UNUSED):
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
        " again (`make setup`, or pip with requirements.txt)"
    )
