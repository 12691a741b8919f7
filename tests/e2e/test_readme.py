"""Every command in README.md is run here, in the README's order, from an empty folder.

A block fenced as `sh` is commands; one fenced as `console` right after it shows lines that the
last of them prints. A line that nothing here knows fails the test.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

import pytest

from tests.cli.console import ROOT, Ended
from tests.cli.transcript import Services, make_table, settled

README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")

RUN = re.compile(r"(ddbload|printf|cat) ")
"""What is run as it stands."""
INSTALLS = {"pipx install ."}
"""What test_wheel.py does with the same wheel."""
REJECTS = (
    "ddbload import books.csv ",
    "ddbload import s3://my-bucket/in/books.csv ",
    "cat books.csv | ddbload import - ",
    "ddbload report first",
)
"""What ends with 3: the README's own file has a row without a key."""


@dataclass
class Block:
    """Commands, and lines of what the last one prints."""

    commands: list[str]
    shown: list[str]


def blocks() -> list[Block]:
    found: list[Block] = []
    for language, text in BLOCK.findall(README):
        if language == "sh":
            # A line that ends with a backslash goes on.
            found.append(Block(text.replace("\\\n", "").splitlines(), []))
        elif language == "console":
            assert found, "output is shown before any command"
            found[-1].shown = text.splitlines()
        else:
            assert language in ("json", "text"), f"a block of unknown kind: {language!r}"
    return found


@pytest.fixture
def reader(services: Services) -> Services:
    """Someone who has the tables and the bucket that the README speaks of."""
    make_table(services.dynamodb, "books", "isbn:S")
    make_table(services.dynamodb, "words", "word:S", "year:N")
    services.console.write("words.tsv", "Emma\t1815\t7\nUbu\t1896\t\n")
    services.s3.create_bucket(Bucket="my-bucket")
    yield services
    for table in ("books", "words"):
        services.dynamodb.delete_table(TableName=table)


def test_every_command_does_what_it_says(reader):
    console = reader.console
    for block in blocks():
        ended = None
        for line in block.commands:
            ended = run(line, reader)
        if block.shown:
            assert ended is not None, f"nothing was run that would print {block.shown}"
            printed = iter(settled(ended.out, console).splitlines())
            for line in block.shown:
                assert line in printed, (
                    f"{block.commands[-1]} prints:\n{ended.out}not, here: {line}"
                )


def run(line: str, reader: Services) -> Ended | None:
    if line.startswith("make"):
        check_make(line)
        return None
    if line in INSTALLS:
        return None
    assert RUN.match(line), f"not run by any test: {line}"
    if "s3://my-bucket/" in line:
        data = reader.console.path("books.csv").read_bytes()
        reader.s3.put_object(Bucket="my-bucket", Key="in/books.csv", Body=data)
    ended = reader.console.shell(f"set -o pipefail; {line}")
    assert (ended.code, ended.err) == (3 if line.startswith(REJECTS) else 0, ""), line
    return ended


def check_make(line: str) -> None:
    """CI runs the targets; here it is enough that they exist."""
    dry = ["bash", "-c", line.replace("make", "make --dry-run", 1)]
    done = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr}"


def test_the_readme_is_read_at_all():
    commands = [line for block in blocks() for line in block.commands]
    assert sum(line.startswith("ddbload import ") for line in commands) >= 3
    assert any(block.shown for block in blocks())


@pytest.mark.parametrize("line", ["rm -rf books.csv", "make no-such-target", "ddbload no-such"])
def test_what_it_does_not_know_fails(line, reader):
    with pytest.raises(AssertionError):
        run(line, reader)


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for link in LINK.findall(page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
