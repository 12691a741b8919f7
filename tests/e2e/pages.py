"""Run the commands of a documentation page in order.

A block fenced as `sh` is commands, run line by line; one fenced as `console` right after it shows
lines that the last of them prints; one fenced as `json` after "Save it as `name`:" is that file. A
line that nothing here knows fails the test.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.console import ROOT, Console, Ended
from tests.cli.fork_server import fork_server
from tests.cli.transcript import settled
from tests.e2e import repeated_synthesis
from tests.e2e.processes import until

BLOCK = re.compile(r"([^\n]*)\n\n```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"Save it as `([\w.]+)`:$")
RUN = re.compile(r"(ddbload|printf|cat|aws|\.venv/bin/python|node_modules/\.bin/cdk) ")
"""Commands that are run unchanged."""
DEFINED = re.compile(r"\w+\(\) \{.*\}$")
ASSIGNED = re.compile(r"(?:^| )(\w+)=\$\(")
INSTALLS = {
    "pipx install .",
    "git clone https://github.com/ddbload/ddbload && cd ddbload",
}
"""Commands that are not run: a checkout is there, and test_wheel.py installs it."""
REJECTS = re.compile(
    r"(cat books.csv \| )?ddbload (import (books.csv|s3://my-bucket/in/books.(csv|zip)|'s3://.*|-)"
    r"|start|resume|report|plan) "
)
"""Commands that exit with 3: the README's file has a row without a key."""
TELLS = re.compile(
    r"node_modules/\.bin/cdk |ddbload (start|resume|deploy|destroy)\b"
    r"|ddbload import (things|words|'s3:|s3:\S+zip)"
)
"""Commands that print progress or detected formats on stderr."""
NAMES = re.compile(r"(cat books.csv \| )?ddbload import ")
"""Commands that print their run id first, on stderr."""
BOOKS = (
    "isbn,title,year\n0439023483,The Hunger Games,2008\n"
    '0439554934,"Harry Potter, 1",1997\n,No ISBN,2001\n'
)
CHECKOUT = ("app.py", "node_modules")
SLOWLY = 180.0
"""Seconds within which a run ends, even on a busy machine."""


@dataclass
class Block:
    """Commands with lines of the last one's output, or a file."""

    commands: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    file: tuple[str, str] | None = None


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    for before, language, text in BLOCK.findall(page):
        if language == "sh":
            # A line that ends with a backslash goes on.
            found.append(Block(text.replace("\\\n", "").splitlines()))
        elif language == "console":
            assert found, "output is shown before any command"
            found[-1].shown = text.splitlines()
        elif language == "json":
            name = SAVED.search(before)
            assert name, f"a JSON block that is no file, below: {before}"
            json.loads(text)
            found.append(Block(file=(name[1], text)))
        else:
            assert language == "text", f"a block of unknown kind: {language!r}"
    assert len(found) + page.count("\n```console\n") + page.count("\n```text\n") == (
        page.count("\n```") / 2
    ), "a block that is not read: leave an empty line before it"
    return found


@dataclass
class Reader:
    """User with an AWS account and a folder that looks like the checkout."""

    console: Console
    stepfunctions: Any
    s3: Any
    _known: list[str] = field(default_factory=list)
    """Shell functions and variables, as lines that define them again."""
    _runs: int = 0

    def follow(self, page: str) -> None:
        """Run a page's commands, and check the output that it shows."""
        for block in blocks(page):
            if block.file is not None:
                self.console.write(*block.file)
                continue
            ended = None
            for line in block.commands:
                ended = self.run(line)
            if block.shown:
                assert ended is not None, f"nothing was run that would print {block.shown}"
                printed = iter(settled(ended.out, self.console).splitlines())
                for line in block.shown:
                    assert line in printed, (
                        f"{block.commands[-1]} prints:\n{ended.out}not, here: {line}"
                    )

    def run(self, line: str) -> Ended | None:
        """Run a line; return None for commands that other tests run."""
        if line.startswith("make"):
            check_make(line)
            return None
        if line in INSTALLS:
            return None
        if DEFINED.fullmatch(line):
            self._known.append(line)
            return None
        if names := ASSIGNED.findall(line):
            return self._assign(line, names)
        assert RUN.match(line), f"not run by any test: {line}"
        if line.startswith("ddbload") and "s3://my-bucket/" in line:
            data = self.console.path("books.csv").read_bytes()
            self.s3.put_object(Bucket="my-bucket", Key="in/books.csv", Body=data)
            archive = io.BytesIO()
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as members:
                members.writestr("books.csv", data)
            self.s3.put_object(Bucket="my-bucket", Key="in/books.zip", Body=archive.getvalue())
        self._runs = len(self._executions())
        ended = self._shell(line)
        wanted = 3 if REJECTS.match(line) else 0
        assert ended.code == wanted, (line, ended)
        if not TELLS.match(line):
            assert (ended.told if NAMES.match(line) else ended.err) == "", line
        if line.startswith("aws stepfunctions start-execution") or re.search(
            r"^aws s3 cp .*(\$inbox/|my-bucket/new/)", line
        ):
            self._await_run(line)
        return ended

    def _shell(self, line: str) -> Ended:
        # Nobody is there to answer questions.
        line = line.replace("cdk destroy", "cdk destroy --force")
        line = re.sub(r"^ddbload (deploy|destroy)", r"\g<0> --yes", line)
        return self.console.shell("\n".join(["set -o pipefail", *self._known, line]))

    def _assign(self, line: str, names: list[str]) -> Ended:
        shown = " ".join(f'"{name}=$(printf %q "${name}")"' for name in names)
        ended = self._shell(f"{line}\nprintf '%s\\n' {shown}")
        assert (ended.code, ended.err) == (0, ""), line
        values = ended.out.splitlines()
        assert len(values) == len(names), ended.out
        for value in values:
            assert not value.endswith(("=''", "=None")), f"{line} gives no {value}"
        self._known += values
        return ended

    def _executions(self) -> list[dict[str, Any]]:
        machines = self.stepfunctions.list_state_machines()["stateMachines"]
        return [
            execution
            for machine in machines
            for execution in self.stepfunctions.list_executions(
                stateMachineArn=machine["stateMachineArn"]
            )["executions"]
        ]

    def _await_run(self, line: str) -> None:
        """Wait until background commands have succeeded."""

        def ended() -> bool:
            found = self._executions()
            running = any(each["status"] == "RUNNING" for each in found)
            return len(found) > self._runs and not running

        until(ended, f"no run has begun and ended after: {line}", SLOWLY)
        assert {each["status"] for each in self._executions()} == {"SUCCEEDED"}


def check_make(line: str) -> None:
    """Check that the targets of make exist; CI runs them."""
    dry = ["bash", "-c", line.replace("make", "make --dry-run", 1)]
    done = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr}"


def furnish(console: Console, syntheses: Path) -> None:
    """Make a folder look like the checkout, without prompts or downloads.

    `syntheses`: folder with what `cdk` has synthesized before.
    """
    for name in CHECKOUT:
        console.path(name).symlink_to(ROOT / name)
    # tests/infra/test_command_line.py runs `cdk` with the app of cdk.json.
    settings = json.loads((ROOT / "cdk.json").read_text("utf-8"))
    settings["app"] = f'"{sys.executable}" -m {repeated_synthesis.__name__} "{syntheses}"'
    console.write("cdk.json", json.dumps(settings))
    console.path(".venv").symlink_to(sys.prefix)
    home = Path(console.env["HOME"])
    (home / ".cdk.json").write_text('{"requireApproval": "never"}')
    console.env |= {
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "true",
        # Two thirds of a synthesis; test_whole_demo.py deploys with it.
        "CDK_VALIDATION": "false",
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(ROOT / "node_modules" / ".cache" / "jsii"),
        "NODE_NO_WARNINGS": "1",
    }


@contextmanager
def aws_command_line(folder: Path) -> Iterator[Path]:
    """Yield a folder with the AWS CLI, a copy of which aws-cdk-lib depends on."""
    package = Path(sysconfig.get_path("purelib"), "aws_cdk", "asset_awscli_v1", "_jsii")
    (archive,) = package.glob("*.tgz")
    with tarfile.open(archive) as tar:
        layer = tar.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as zipped:
            zipped.extractall(folder)  # noqa: S202 - a package that pip has checked
    for name in ("plain", "forked", "bin"):
        (folder / name).mkdir()
    program = folder / "awscli" / "aws"
    plain = script(
        folder / "plain" / "aws", f'PYTHONPATH= exec "{sys.executable}" "{program}" "$@"'
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with fork_server(folder / "forked", plain, env, program.parent) as forked:
        # This version of it does not use AWS_ENDPOINT_URL for SQS, nor AWS_ENDPOINT_URL_DYNAMODB.
        command = script(
            folder / "bin" / "aws",
            'url="$AWS_ENDPOINT_URL"\n'
            '[ "$1" != dynamodb ] || url="$AWS_ENDPOINT_URL_DYNAMODB"\n'
            f'exec "{forked}" --endpoint-url "$url" "$@"',
        )
        yield command.parent


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
