"""The first thing in a function's process; then awslambdaric, AWS's own runtime, takes over.

Run by its path, never imported, and on the standard library only: nothing of this package may
be seen by the function. It makes the process end with its parent, and hides what a function
would not find on AWS.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import sysconfig
import threading
from collections.abc import Sequence
from types import ModuleType

# What Lambda's Python runtimes bring along. Anything else that happens to be installed here
# must come with the function's own code, as it must on AWS.
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
    """Refuses installed packages that are not part of Lambda's runtime."""

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
    """Give the handler an empty standard input, and end when the real one does."""
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
    # Editable installs and the like add folders of their own.
    library = [paths["stdlib"], paths["platstdlib"], sys.base_prefix, sys.base_exec_prefix]
    known = (task_root, *installed, *library)
    sys.path[:] = [entry for entry in sys.path if entry.startswith(known)]
    sys.meta_path.insert(0, _RuntimePackageFinder(installed))


def _main() -> None:
    _end_with_parent()
    _hide_installed_packages()
    # Only now is it found as on AWS. It has no types.
    from awslambdaric.__main__ import main  # type: ignore[import-untyped]  # noqa: PLC0415

    main(["awslambdaric", sys.argv[1]])


_main()
