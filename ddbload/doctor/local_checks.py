"""Check this machine: Python, Node.js, extras, the ledger's folder, a proxy."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from ddbload import __version__
from ddbload.deploy.toolchain import OLDEST_NODE, SUPPORTED_NODE, node_version

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check."""

    name: str
    status: str
    """`ok`; `warn` for what may matter later; `fail` for what a command would fail with."""
    message: str
    advice: str | None = None
    """Command or change that helps."""

    def to_json(self) -> dict[str, str | None]:
        """Return the check as JSON."""
        return {
            "check": self.name,
            "status": self.status,
            "message": self.message,
            "advice": self.advice,
        }


def check_machine(
    *, source: str | None, ledger: str, environment: Mapping[str, str] = os.environ
) -> Iterator[Check]:
    """Yield the checks of this machine, none of which needs AWS."""
    yield Check("version", OK, f"ddbload {__version__}, {sys.executable}")
    yield Check("python", OK, f"Python {platform.python_version()}")
    yield _check_node()
    yield from _check_extras(source or "")
    yield _check_ledger(ledger)
    yield _check_proxy(environment)
    if source is not None and not source.startswith("s3://") and source != "-":
        yield _check_file(Path(source))


def _check_node() -> Check:
    found = node_version()
    if found is None:
        return Check(
            "node",
            WARN,
            "Node.js was not found",
            f"only `ddbload deploy` and `ddbload demo` need it: install Node.js {SUPPORTED_NODE}"
            " or newer",
        )
    shown = f"Node.js {'.'.join(map(str, found))}"
    if found[0] < OLDEST_NODE:
        return Check(
            *("node", WARN, shown),
            f"`ddbload deploy` and `ddbload demo` need {SUPPORTED_NODE} or newer",
        )
    if found[0] < SUPPORTED_NODE:
        message = f"{shown} works, but is past its end of life: install {SUPPORTED_NODE} or newer"
        return Check("node", WARN, message)
    return Check("node", OK, shown)


def _check_extras(source: str) -> Iterator[Check]:
    for name, module, package, endings in (
        ("parquet", "pyarrow", "pyarrow", (".parquet",)),
        ("zstd", "zstandard", "zstandard", (".zst", ".zstd")),
    ):
        if find_spec(module) is not None:
            yield Check(name, OK, f"the package {package} is installed")
            continue
        needed = source.lower().endswith(endings)
        yield Check(
            name,
            FAIL if needed else OK,
            f"the package {package} is not installed, which only {endings[0]} files need",
            f"pipx inject ddbload {package}" if needed else None,
        )


def _check_ledger(ledger: str) -> Check:
    if ledger.startswith("s3://"):
        return Check("ledger", OK, f"{ledger} (written to by an import only, so not tried)")
    folder = Path(ledger).expanduser()
    nearest = folder
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return Check("ledger", OK, str(folder))
    return Check(
        "ledger",
        FAIL,
        f"{folder} cannot be written to",
        "allow it, or name another folder by --ledger or DDBLOAD_LEDGER",
    )


def _check_proxy(environment: Mapping[str, str]) -> Check:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        if environment.get(name):
            # A password may stand before the host.
            host = urlsplit(environment[name]).hostname or "an address that cannot be read"
            return Check(
                "proxy",
                WARN,
                f"{name} leads through {host}",
                "the default engine needs a direct connection, so imports use slower threads;"
                " name AWS's hosts in NO_PROXY if they can be reached directly",
            )
    return Check("proxy", OK, "none")


def _check_file(path: Path) -> Check:
    if not path.exists():
        return Check("source", FAIL, f"{path} does not exist", "check the path")
    if path.is_dir():
        return Check("source", FAIL, f"{path} is a folder", "name the files in it, like *.csv")
    if not os.access(path, os.R_OK):
        return Check("source", FAIL, f"{path} cannot be read", "allow it")
    return Check("source", OK, f"{path}, {path.stat().st_size:,} bytes")
