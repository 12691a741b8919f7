"""Print requirements.txt: pyproject.toml's packages in the versions of locks/dev.txt.

`make lock` runs it: `python -m release.requirements >requirements.txt`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_ABOUT = """\
# The packages that ddbload and its tests use, in the versions that are tested: `make lock` writes
# this list from pyproject.toml. `make setup` installs locks/dev.txt, which has the packages that
# these need, too, and a hash of each.
"""
_GROUPS = (
    ("Commands and functions", ("dependencies",)),
    ("Parquet and Zstandard files", ("parquet", "zstd")),
    ("The CDK app, and what the deployed functions carry", ("deploy",)),
    ("AWS on this machine", ("localaws",)),
    ("Tests, benchmarks and linters", ("dev",)),
)
"""Headings, and the lists of pyproject.toml below each."""


def requirements(pyproject: str, lock: str) -> str:
    """Return the text of requirements.txt."""
    project = tomllib.loads(pyproject)["project"]
    lists = {"dependencies": project["dependencies"], **project["optional-dependencies"]}
    versions = dict(re.findall(r"^([a-z0-9-]+)==([^\s;\\]+)", lock, re.MULTILINE))
    text, listed = _ABOUT, set()
    for heading, names in _GROUPS:
        text += f"\n# {heading}\n"
        for requirement in sorted(each for name in names for each in lists[name]):
            package, extras = re.findall(r"^([\w.-]+)(\[.*\])?", requirement)[0]
            if package not in listed:
                listed.add(package)
                text += f"{package}{extras}=={versions[package]}\n"
    return text


if __name__ == "__main__":
    found = [(ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "locks/dev.txt")]
    print(requirements(*found), end="")  # noqa: T201 - what `make lock` writes
