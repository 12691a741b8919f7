"""Install the CDK app's packages into a private folder, and copy the app for a synthesis.

The wheel holds the app in `ddbload_cdk`. ddbload never imports it: a copy of it runs in another
environment, with packages whose hashes are checked against lock files.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ddbload.errors import ToolsUnavailable
from ddbload.records import Record

APP_PARTS = (
    *("app.py", "cdk.json", "package.json", "package-lock.json"),
    *("lambdas", "localaws", "statemachine"),
    *("locks/demo.txt", "locks/deploy.txt"),
)
"""Files and folders of the app besides its constructs, in a checkout and in the wheel."""
OLDEST_NODE = 20
"""Oldest version of Node.js that is accepted."""
SUPPORTED_NODE = 22
"""Oldest version of Node.js that still gets security fixes, which messages ask for."""

_PACKAGE = Path(__file__).resolve().parent.parent
_DATA = _PACKAGE.parent / "ddbload_cdk" / "app"
_DONE = ".installed"
_SKIPPED = shutil.ignore_patterns("__pycache__", "*.pyc", _DATA.name)


def app_folder() -> Path:
    """Return the folder with the app, in the wheel or in the checkout.

    Raises `ToolsUnavailable`.
    """
    for folder in (_DATA, _PACKAGE.parent):
        if all((folder / part).exists() for part in APP_PARTS):
            return folder
    raise ToolsUnavailable(
        f"{_PACKAGE} came without the CDK app, which ddbload's wheel and its checkout have:"
        " install ddbload from one of them"
    )


def copy_app(to: Path, settings: Mapping[str, Any]) -> None:
    """Copy the app and ddbload into a new folder, and write settings into its cdk.json."""
    source = app_folder()
    to.mkdir(mode=0o700)
    for part in APP_PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, to / part, ignore=_SKIPPED)
        else:
            (to / part).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / part, to / part)
    constructs = source.parent if source == _DATA else source / "infra"
    shutil.copytree(constructs, to / "infra", ignore=_SKIPPED)
    # The functions are packaged with the ddbload modules next to the app.
    shutil.copytree(_PACKAGE, to / "ddbload", ignore=_SKIPPED)
    config = json.loads((to / "cdk.json").read_text("utf-8"))
    config["context"] |= settings
    (to / "cdk.json").write_text(json.dumps(config), "utf-8")


class ToolSet(Record):
    """Packages for one purpose, and the lock files that pin them."""

    purpose: str
    lock: str | None
    """Name of the lock file of Python packages in `locks`; None if none are needed."""
    npm: tuple[str, ...]
    """Names of the npm packages that are needed."""
    omitted: tuple[str, ...]
    """Groups of npm packages that are not installed."""
    megabytes: int
    """Size on disk in megabytes, measured on Linux."""
    modules: tuple[str, ...]
    """Modules whose presence shows that a Python has the packages already."""


DEPLOY_TOOLS = ToolSet(
    purpose="aws-cdk-lib from PyPI, aws-cdk from npm",
    lock="deploy.txt",
    npm=("aws-cdk",),
    omitted=("dev", "optional"),
    megabytes=510,
    modules=("aws_cdk", "aws_lambda_powertools"),
)
DEMO_TOOLS = ToolSet(
    purpose="aws-cdk-lib and moto from PyPI, aws-cdk and dynalite from npm",
    lock="demo.txt",
    npm=("aws-cdk", "dynalite"),
    omitted=("dev",),
    megabytes=760,
    modules=("aws_cdk", "aws_lambda_powertools", "awslambdaric", "moto"),
)
IMPORT_DEMO_TOOLS = ToolSet(
    purpose="dynalite from npm",
    lock=None,
    npm=("dynalite",),
    omitted=("dev",),
    megabytes=35,
    modules=(),
)


class Toolchain(Record):
    """Python with the packages, and a folder with the npm packages."""

    python: str
    node_modules: Path
    cache: Path
    """Folder for files that later syntheses reuse."""

    @property
    def cdk(self) -> Path:
        """Path of the `cdk` command."""
        return self.node_modules / ".bin" / "cdk"


def checkout_tools(tools: ToolSet) -> Toolchain | None:
    """Return the tools that a checkout has from `make setup node_modules` or `make demo`."""
    node_modules = _PACKAGE.parent / "node_modules"
    found = Toolchain(sys.executable, node_modules, node_modules / ".cache")
    if _DATA.is_dir() or not all((node_modules / name).is_dir() for name in tools.npm):
        return None
    return found if all(find_spec(name) is not None for name in tools.modules) else None


def tools_folder(tools: ToolSet) -> Path:
    """Return the private folder of the tools, named by a hash of their lock files.

    Raises `ToolsUnavailable`.
    """
    source = app_folder()
    names = ["package.json", "package-lock.json"]
    names += [f"locks/{tools.lock}"] if tools.lock else []
    digest = hashlib.sha256(f"{sys.version_info[:2]}{tools.omitted}".encode())
    for name in names:
        digest.update((source / name).read_bytes())
    return cache_home() / "ddbload" / "tools" / digest.hexdigest()[:16]


def cache_home() -> Path:
    """Return XDG's folder for caches. Raises `ToolsUnavailable`."""
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(cache) if cache else Path.home() / ".cache"
    except RuntimeError:
        raise ToolsUnavailable("there is no home folder: set HOME or XDG_CACHE_HOME") from None


def is_installed(tools: ToolSet) -> bool:
    """Return whether the tools are installed, so that `install` would download nothing."""
    return checkout_tools(tools) is not None or (tools_folder(tools) / _DONE).exists()


def check_node() -> tuple[int, ...]:
    """Return the version of Node.js. Raises `ToolsUnavailable` if it or npm is missing or old."""
    hint = (
        f"install Node.js {SUPPORTED_NODE} or newer (https://nodejs.org), with npm, and try again"
    )
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise ToolsUnavailable(f"there is no {program} on the PATH: {hint}")
    found = _node_version()
    if found is None or found[0] < OLDEST_NODE:
        shown = "of an unknown version" if found is None else ".".join(map(str, found))
        raise ToolsUnavailable(f"Node.js is {shown}, which is too old: {hint}")
    return found


def _node_version() -> tuple[int, ...] | None:
    """Return the version of Node.js; None if it is broken."""
    try:
        done = subprocess.run(
            ["node", "--version"],  # noqa: S607 - Node from PATH
            env=environment_without_aws(),
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return tuple(int(part) for part in done.stdout.strip().removeprefix("v").split("."))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def install(tools: ToolSet, show: Callable[[str], None]) -> Toolchain:
    """Return the tools, installing them into the private folder if they are missing.

    `show` receives a line before each step. Raises `ToolsUnavailable`.
    """
    check_node()
    if (found := checkout_tools(tools)) is not None:
        return found
    folder = tools_folder(tools)
    with _locked(folder):
        made = Toolchain(
            str(folder / "venv" / "bin" / "python"), folder / "node_modules", folder / "cache"
        )
        if not (folder / _DONE).exists():
            # Remove the remains of an interrupted installation.
            shutil.rmtree(folder, ignore_errors=True)
            _make_private(folder)
            if tools.lock is not None:
                show(f"installing Python packages into {folder} ...")
                _install_python_packages(folder, made.python, tools.lock)
            show(f"installing npm packages into {folder} ...")
            _install_npm_packages(folder, tools.omitted)
            (folder / _DONE).touch()
    return made


def _install_python_packages(folder: Path, python: str, lock: str) -> None:
    _run(
        [sys.executable, "-m", "venv", str(folder / "venv")],
        "making a virtual environment",
        advice="on Debian and Ubuntu install the package python3-venv",
    )
    _run(
        [
            *(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-input", "--no-compile", "--no-deps", "--require-hashes"),
            *("--only-binary", ":all:", "--requirement", str(app_folder() / "locks" / lock)),
        ],
        "installing Python packages",
        advice="pip needs PyPI, or the index that it is configured with",
    )


def _install_npm_packages(folder: Path, omitted: Sequence[str]) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(app_folder() / name, folder / name)
    # Without install scripts, so that no package runs code during the installation.
    _run(
        [
            *(str(shutil.which("npm")), "ci", "--ignore-scripts", "--no-audit", "--no-fund"),
            *("--no-update-notifier", "--loglevel=error", *(f"--omit={each}" for each in omitted)),
        ],
        "installing npm packages",
        advice="npm needs its registry, or the one that it is configured with",
        folder=folder,
    )


def _make_private(folder: Path) -> None:
    """Make a folder that only its owner can read and write. Raises `ToolsUnavailable`."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        for each in (folder, folder.parent)[: 1 + (folder.parent.name == "tools")]:
            found = each.stat()
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                raise ToolsUnavailable(
                    f"{each} belongs to another user, or others may write to it, so programs in"
                    " it cannot be trusted: change that, or name another folder by XDG_CACHE_HOME"
                )
    except OSError as error:
        raise ToolsUnavailable(f"{folder} cannot be made: {error.strerror}") from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder against concurrent installations."""
    _make_private(folder.parent)
    with folder.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str], doing: str, *, advice: str, folder: Path | None = None) -> None:
    """Run an installer. Raises `ToolsUnavailable` with the last line of its output."""
    done = subprocess.run(  # noqa: S603 - pip and npm, with lists of ddbload's own
        command,
        cwd=folder,
        env=environment_without_aws(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        said = (errors or lines or ["no reason was given"])[-1 if not errors else 0]
        raise ToolsUnavailable(f"{doing} failed: {said.strip()}; {advice}")


def environment_without_aws() -> dict[str, str]:
    """Return this process's environment without AWS settings and Python settings."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") and name not in dropped
    }
