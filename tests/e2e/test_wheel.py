"""Contents of the wheel, and its use without a checkout."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

from ddbload import __version__
from ddbload.deploy.toolchain import copy_app
from tests.cli.console import ROOT
from tests.cli.transcript import items, make_table

APP = "ddbload_cdk/app"
PARTS = (
    *("app.py", "cdk.json", "package.json", "package-lock.json"),
    *("infra", "lambdas", "localaws", "statemachine"),
    *("locks/demo.txt", "locks/deploy.txt"),
)


def test_wheel_has_the_package_and_the_construct_with_the_app(wheel):
    files = [
        path for path in (ROOT / "ddbload").rglob("*") if path.suffix in (".py", ".pyi", ".typed")
    ]
    sources = {path.relative_to(ROOT).as_posix() for path in files}
    tracked = subprocess.run(
        ["git", "ls-files", "--", *PARTS], cwd=ROOT, check=True, capture_output=True, text=True
    )
    app = {
        f"ddbload_cdk/{name.removeprefix('infra/')}"
        if name.startswith("infra/")
        # There is no second copy.
        else f"{APP}/{name}"
        for name in tracked.stdout.splitlines()
    }
    assert len(app) > 90
    about = f"ddbload-{__version__}.dist-info"
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = message_from_string(archive.read(f"{about}/METADATA").decode())
        entries = archive.read(f"{about}/entry_points.txt").decode()
        assert archive.read(f"{APP}/cdk.json") == (ROOT / "cdk.json").read_bytes()
    assert wheel.name == f"ddbload-{__version__}-py3-none-any.whl"
    assert {name.partition("/")[0] for name in names} == {"ddbload", "ddbload_cdk", about}
    assert names - app == sources | {
        f"{about}/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    assert app <= names
    assert entries.split() == ["[console_scripts]", "ddbload", "=", "ddbload.cli.main:main"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    links = re.findall(r"\]\(([^)\s]*)\)", metadata.get_payload())
    assert len(links) > 15
    assert [link for link in links if not link.startswith("https://")] == []
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(line.partition(">")[0].partition("<")[0] for line in needed) == [
        *("botocore", "charset-normalizer", "click", "rich")
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_works_when_installed_alone(wheel, console, dynamodb):
    """The wheel is installed into a new environment that shares only the dependencies."""
    home = console.folder / "venv"
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib"))
    install = ["-m", "pip", "--python", home / "bin" / "python", "install", "--quiet"]
    where = ["--no-deps", "--no-index", "--no-warn-script-location", wheel]
    subprocess.run([sys.executable, *install, *where], check=True, capture_output=True)
    make_table(dynamodb, "wheel", "id:N")
    console.write("a.csv", "id,name\n1,one\n2,two\n")

    command = [str(home / "bin" / "ddbload"), "import", "a.csv", "wheel"]
    ended = console.run([*command, "--processes", "2", "--chunk-bytes", "1"], PYTHONPATH=None)

    assert (ended.code, ended.told) == (0, "")
    assert len(list(items(dynamodb, "wheel"))) == 2
    where = console.run(
        [str(home / "bin" / "python"), "-c", "import ddbload; print(ddbload.__file__)"],
        PYTHONPATH=None,
    )
    assert Path(where.out.strip()).is_relative_to(home)

    # What `ddbload deploy` synthesizes is the same as from a checkout.
    copy = "import pathlib, ddbload.deploy.toolchain as t; t.copy_app(pathlib.Path('app'), {})"
    ended = console.run([str(home / "bin" / "python"), "-c", copy], PYTHONPATH=None)
    assert ended.code == 0, ended.err
    copy_app(console.path("checkout"), {})
    assert contents(console.path("app")) == contents(console.path("checkout"))

    # It installs nothing unasked, and says what it would install, and where.
    ended = console.run([str(home / "bin" / "ddbload"), "demo"], PYTHONPATH=None)
    assert ended.code == 2
    assert "aws-cdk-lib and moto from PyPI" in ended.err
    assert f"will be installed into {console.env['HOME']}/.cache/ddbload/tools/" in ended.err
    assert ended.err.endswith("there is no terminal to ask on: give --yes to agree\n")
    assert not Path(console.env["HOME"], ".cache", "ddbload", "tools").exists()
