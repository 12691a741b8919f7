"""Run `cdk` commands for ddbload's app, and find the cause when one fails."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ddbload.deploy.toolchain import Toolchain, cache_home, environment_without_aws
from ddbload.errors import DeploymentFailed
from ddbload.records import Record

_CHILD_PROCESS = Path(__file__).with_name("child_process.py")
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


class Command(Record):
    """Running `cdk` command."""

    name: str
    process: subprocess.Popen[str]

    def wait(self, show: Callable[[str], object] = lambda _line: None) -> str:
        """Wait for the command and return its output; pass each line to `show`.

        Raises `DeploymentFailed` with the cause.
        """
        lines = []
        for line in self.process.stdout or ():
            lines.append(line)
            show(line.rstrip("\n"))
        output, status = "".join(lines), self.process.wait()
        if status:
            raise DeploymentFailed(f"cdk {self.name}: {failure_cause(output, status)}")
        return output


def failure_cause(output: str, status: int) -> str:
    """Find the line that explains why `cdk` failed: the app's named error, or cdk's own."""
    lines = [_STYLES.sub("", line).strip() for line in output.splitlines()]
    for line in lines:
        if re.match(r"ddbload: [A-Z][A-Za-z]+: ", line):
            return line.removeprefix("ddbload: ")
    # The first failed resource names the cause. Without one, use all text after cdk's failure mark.
    for line in lines:
        if re.search(r" \| (CREATE|UPDATE|DELETE)_FAILED ", line):
            return " ".join(line.split())
    marked = [number for number, line in enumerate(lines) if "❌" in line or line.startswith("‣")]
    said = [line for line in lines[marked[0] if marked else -1 :] if line]
    return " ".join(said).replace("❌", "").strip() or f"ended with status {status}"


class Cdk:
    """`cdk` commands for one app, which write all of their files into `folder`."""

    def __init__(
        self, folder: Path, tools: Toolchain, app: Path, context: Mapping[str, str]
    ) -> None:
        """Prepare commands.

        Args:
            folder: Folder for all files that cdk writes.
            tools: Installed Python and npm packages.
            app: Folder with app.py and cdk.json.
            context: Settings that replace those of cdk.json.
        """
        self._folder = folder
        self._tools = tools
        self._app = app
        self._assembly = folder / "cdk.out"
        self._context = context
        home = folder / "home"
        home.mkdir()
        self._environment = {
            **environment_without_aws(),
            # cdk keeps caches and settings in the home folder; the user's must not apply.
            "HOME": str(home),
            # A killed command leaves temporary files there.
            "TMPDIR": str(home),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "true",
            # Keep the unpacked CDK library, because unpacking takes longer than synthesis.
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(tools.cache / "jsii"),
            "NODE_NO_WARNINGS": "1",
            "NO_COLOR": "1",
            # Keep the layers' wheels with the user's other caches.
            "XDG_CACHE_HOME": str(cache_home()),
        }

    def synth(self) -> AbstractContextManager[Command]:
        """Synthesize the assembly, without AWS."""
        arguments = ["--app", f"{shlex.quote(self._tools.python)} app.py", "--quiet"]
        arguments += ["--output", str(self._assembly)]
        for name, value in self._context.items():
            arguments += ["--context", f"{name}={value}"]
        return self._command("synth", arguments, {}, folder=self._app)

    def bootstrap(
        self, account: str, region: str, environment: Mapping[str, str]
    ) -> AbstractContextManager[Command]:
        """Bootstrap an account and region. `environment` holds the credentials for it."""
        where = f"aws://{account}/{region}"
        # Run in a folder without cdk.json; otherwise cdk would synthesize the app first.
        return self._command("bootstrap", [where], environment)

    def diff(
        self, environment: Mapping[str, str], *, security: bool
    ) -> AbstractContextManager[Command]:
        """Compare the assembly with the deployed stack, or only its permissions (`security`)."""
        arguments = ["--app", str(self._assembly), "--method", "template"]
        arguments += ["--security-only"] if security else []
        return self._command("diff", arguments, environment)

    def deploy(self, environment: Mapping[str, str]) -> AbstractContextManager[Command]:
        """Deploy the assembly."""
        arguments = ["--app", str(self._assembly), "--require-approval", "never"]
        arguments += ["--method", "direct", "--progress", "events"]
        return self._command("deploy", arguments, environment)

    @contextmanager
    def _command(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> Iterator[Command]:
        line = [str(self._tools.cdk), name, *arguments, "--no-notices"]
        # Leaving the block closes its standard input, which ends the command if it still runs.
        with subprocess.Popen(  # noqa: S603 - cdk of the toolchain
            [sys.executable, "-I", str(_CHILD_PROCESS), *line],
            cwd=folder or self._folder,
            env={**self._environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process:
            yield Command(name, process)
