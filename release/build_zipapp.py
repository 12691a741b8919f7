"""Build dist/ddbload.pyz: `python -m release.build_zipapp FILE`.

It holds ddbload and locks/run.txt, which are pure Python, so that one file runs with any Python
from 3.11 on. The same checkout gives the same bytes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from release.unpack_and_run import DIGEST, SITE

ROOT = Path(__file__).resolve().parent.parent
_TIME = (2020, 2, 2, 0, 0, 0)
_COMPILED = (".so", ".pyd", ".dylib", ".dll")
_OF_THE_INSTALLER = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def build(target: Path) -> None:
    """Write the archive. Raises ValueError for a package with compiled code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run(*("-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "wheel", ROOT))
        site = folder / "site"
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        into = (*install, "--no-compile", "--target", site)
        # Some packages have compiled wheels, too.
        pure = ("--platform", "any", "--implementation", "py", "--abi", "none")
        locked = ("--require-hashes", "--only-binary", ":all:", *pure)
        _run(*into, *locked, "--requirement", ROOT / "locks" / "run.txt")
        _run(*into, "--no-index", *(folder / "wheel").glob("*.whl"))
        _write(site, target)


def _run(*words: str | Path) -> None:
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own words


def _write(site: Path, target: Path) -> None:
    files = dict(_members(site))
    digest = hashlib.sha256()
    for name, data in files.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    files[DIGEST] = digest.hexdigest()[:32].encode()
    files["__main__.py"] = (ROOT / "release" / "unpack_and_run.py").read_bytes()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, data in sorted(files.items()):
                member = zipfile.ZipInfo(name, _TIME)
                member.compress_type = zipfile.ZIP_DEFLATED
                member.external_attr = 0o644 << 16
                archive.writestr(member, data)
    target.chmod(0o755)


def _members(site: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the packages, without what differs by machine."""
    for path in sorted(site.rglob("*")):
        name = path.relative_to(site)
        if path.suffix in _COMPILED:
            raise ValueError(f"{name} is compiled code, which runs on one system only")
        is_ours = name.parts[0] != "bin" and "__pycache__" not in name.parts
        if path.is_file() and is_ours and path.name not in _OF_THE_INSTALLER:
            yield f"{SITE}/{name.as_posix()}", path.read_bytes()


if __name__ == "__main__":
    build(Path(sys.argv[1]))
