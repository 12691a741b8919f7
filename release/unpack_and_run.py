"""Entry of dist/ddbload.pyz: unpack the archive once into the user's cache, and run ddbload there.

botocore reads its files by path, and worker processes import modules by path: neither works inside
an archive. Python 3.6 can read this file, too, and so tells what is needed.
"""

import atexit
import os
import shutil
import stat
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

OLDEST = (3, 11)
DIGEST = "DIGEST"
"""Member with a hash of all others, which names the folder."""
SITE = "site"
"""Folder of the modules."""


def main() -> None:
    """Unpack, and run."""
    if sys.version_info < OLDEST:
        sys.exit("ddbload needs Python 3.11 or later, and this is " + sys.version.split()[0])
    sys.path[0] = str(_unpack(Path(__file__).resolve().parent) / SITE)
    from ddbload.cli.main import main as run  # noqa: PLC0415 - it has just been unpacked

    run()


def _unpack(archive: Path) -> Path:
    """Return the folder with the archive's files; unpack them if that has not been done."""
    with zipfile.ZipFile(str(archive)) as opened:
        digest = opened.read(DIGEST).decode()
        try:
            root = _private_folder()
            folder = root / digest
            if not folder.is_dir():
                # Another process may unpack the same: the first one to finish wins.
                fresh = tempfile.mkdtemp(dir=str(root))
                _extract(opened, fresh)
                try:
                    Path(fresh).rename(folder)
                except OSError:
                    shutil.rmtree(fresh, ignore_errors=True)
                    if not folder.is_dir():
                        raise
            return folder
        except (OSError, RuntimeError):
            # No home folder that can be written: for this process, and those that it starts.
            found = tempfile.mkdtemp(prefix="ddbload-")
            atexit.register(_remove, found, os.getpid())
            _extract(opened, found)
            return Path(found)


def _remove(folder: str, owner: int) -> None:
    """Remove a folder, unless this is a fork of the process that made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _private_folder() -> Path:
    """Return the folder below the user's cache; only its owner may write to it."""
    cache = os.environ.get("XDG_CACHE_HOME")
    root = (Path(cache) if cache else Path.home() / ".cache") / "ddbload" / "zipapp"
    root.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
    found = root.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise PermissionError(str(root) + " may be written to by others")
    return root


def _extract(opened: zipfile.ZipFile, folder: str) -> None:
    members = [name for name in opened.namelist() if name.startswith(SITE + "/")]
    opened.extractall(folder, members)


if __name__ == "__main__":
    main()
