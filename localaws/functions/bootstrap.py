"""Prepare a function's process, then hand over to awslambdaric, AWS's own runtime.

Run by its path, never imported, and limited to the standard library, so that the function finds
nothing of this package. The process ends with its parent, and installed packages that the function
would not find on AWS are hidden.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import sysconfig
import threading
from collections.abc import Sequence
from types import ModuleType

# Packages of Lambda's Python runtimes. As on AWS, all others must come with the function's code.
_RUNTIME = frozenset(
    {
        "awslambdaric",
        "boto3",
        "botocore",
        "dateutil",
        "jmespath",
        "runtime_client",
        "s3transfer",
        "simplejson",
        "six",
        "snapshot_restore_py",
        "urllib3",
    }
)


class _RuntimePackageFinder:
    """Import finder that refuses installed packages outside Lambda's runtime."""

    def __init__(self, installed: Sequence[str]) -> None:
        self._installed = tuple(folder + os.sep for folder in installed)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if path is not None or name in _RUNTIME:
            return
        spec = importlib.machinery.PathFinder.find_spec(name, None, target)
        if spec is None:
            return
        places = [spec.origin or "", *(spec.submodule_search_locations or [])]
        if any(place.startswith(self._installed) for place in places):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _end_with_parent() -> None:
    """Exit when the real standard input closes, and give the handler an empty one."""
    parent = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def wait() -> None:
        while os.read(parent, 4096):
            pass
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def _hide_installed_packages() -> None:
    paths = sysconfig.get_paths()
    installed = [paths["purelib"], paths["platlib"]]
    task_root = os.environ["LAMBDA_TASK_ROOT"]
    # Drop the folders that editable installs add.
    library = [paths["stdlib"], paths["platstdlib"], sys.base_prefix, sys.base_exec_prefix]
    known = (task_root, *installed, *library)
    sys.path[:] = [entry for entry in sys.path if entry.startswith(known)]
    sys.meta_path.insert(0, _RuntimePackageFinder(installed))


def _main() -> None:
    _end_with_parent()
    _hide_installed_packages()
    # Imported after the packages are hidden, so it is found as on AWS. It has no types.
    from awslambdaric.__main__ import main  # type: ignore[import-untyped]  # noqa: PLC0415

    main(["awslambdaric", sys.argv[1]])


_main()
