"""How the zip application unpacks itself; tests/trials builds and runs the real one."""

from __future__ import annotations

import stat
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from release import unpack_and_run

PROGRAM = """
import multiprocessing, sys
from ddbload.cli import work

def main():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(work.where), sys.argv[1:])
"""


@pytest.fixture
def archive(tmp_path):
    made = tmp_path / "some.pyz"
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("__main__.py", Path(unpack_and_run.__file__).read_text("utf-8"))
        file.writestr("DIGEST", "0123abcd")
        for name, text in (
            ("__init__.py", ""),
            ("cli/__init__.py", ""),
            ("cli/main.py", PROGRAM),
            ("cli/work.py", "def where(): return __file__"),
        ):
            file.writestr(f"site/ddbload/{name}", text)
    return made


def run(archive, home, *words):
    return subprocess.run(
        [sys.executable, archive, *words],
        cwd=archive.parent,
        env={"HOME": str(home), "TMPDIR": str(archive.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_archive_is_unpacked_once_for_its_workers_too(archive, tmp_path):
    """Several first starts at once leave one folder, and nothing else."""
    home = tmp_path / "home"
    home.mkdir()
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda _: run(archive, home, "a", "b"), range(2)))
    root = home / ".cache" / "ddbload" / "zipapp"
    work = root / "0123abcd" / "site" / "ddbload" / "cli" / "work.py"
    assert [each.stdout for each in ended] == [f"{work} ['a', 'b']\n"] * 2
    assert [each.name for each in root.iterdir()] == ["0123abcd"]
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_folder_of_somebody_else_is_not_run(archive, tmp_path):
    """What others may write to is passed over, for a folder that goes with the process."""
    home = tmp_path / "home"
    root = home / ".cache" / "ddbload" / "zipapp"
    planted = root / "0123abcd" / "site" / "ddbload" / "cli"
    planted.mkdir(parents=True)
    (planted / "main.py").write_text("def main(): print('planted')")
    root.chmod(0o777)
    ended = run(archive, home)
    assert "planted" not in ended.stdout
    assert ended.stdout.startswith(f"{tmp_path}/ddbload-")
    assert list(tmp_path.glob("ddbload-*")) == []


def test_old_python_is_named(monkeypatch):
    monkeypatch.setattr(unpack_and_run.sys, "version_info", (3, 10, 4))
    with pytest.raises(SystemExit, match=r"ddbload needs Python 3\.11 or later"):
        unpack_and_run.main()
