"""The CDK's command line, run as a user runs it, and kept quiet unless it fails."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ddbload.cli.demo.checkout import CDK, ROOT
from ddbload.errors import DemoUnavailable

_TIED = Path(__file__).with_name("tied.py")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `cdk` that is under way."""

    name: str
    process: subprocess.Popen[bytes]
    words: Path

    def wait(self) -> None:
        """Wait for its end. Raises `DemoUnavailable` where it failed, and shows its words."""
        status = self.process.wait()
        if status:
            click.echo(self.words.read_text("utf-8", "replace"), err=True, nl=False)
            raise DemoUnavailable(f"cdk {self.name} ended with {status}; its own words are above")


class Cdk:
    """Commands of `cdk` on ddbload's app, whose files all lie in `folder`."""

    def __init__(self, folder: Path, context: Mapping[str, str]) -> None:
        self._folder = folder
        self._assembly = folder / "cdk.out"
        self._context = context
        home = folder / "home"
        home.mkdir()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            # Where cdk keeps caches and settings, which are to be nobody's.
            "HOME": str(home),
            # What they leave there when they are killed.
            "TMPDIR": str(home),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "true",
            # Unpacking the CDK's library takes longer than all of synthesis: so it is kept
            # between demos, in this checkout.
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(ROOT / "node_modules" / ".cache" / "jsii"),
            "NODE_NO_WARNINGS": "1",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        }

    @contextmanager
    def synth(self) -> Iterator[Command]:
        """Make the assembly, for which no AWS is needed."""
        arguments = ["--app", f"{shlex.quote(sys.executable)} app.py", "--quiet"]
        arguments += ["--output", str(self._assembly)]
        for name, value in self._context.items():
            arguments += ["--context", f"{name}={value}"]
        with self._command("synth", arguments, {}) as command:
            yield command

    @contextmanager
    def bootstrap(self, aws: Mapping[str, Any]) -> Iterator[Command]:
        """Make what deployments need in an account and region: `aws` says which."""
        where = f"aws://{aws['account']}/{aws['region']}"
        # Not where cdk.json is: it would synthesize the app, and has no need to.
        with self._command(
            "bootstrap", [where], aws["environment"], folder=self._folder
        ) as command:
            yield command

    @contextmanager
    def deploy(self, aws: Mapping[str, Any]) -> Iterator[Command]:
        """Deploy the assembly."""
        arguments = ["--app", str(self._assembly), "--require-approval", "never"]
        arguments += ["--method", "direct", "--progress", "events"]
        with self._command("deploy", arguments, aws["environment"]) as command:
            yield command

    @contextmanager
    def _command(
        self,
        name: str,
        arguments: list[str],
        environment: Mapping[str, str],
        *,
        folder: Path = ROOT,
    ) -> Iterator[Command]:
        words = self._folder / f"cdk-{name}.log"
        line = [str(CDK), name, *arguments, "--no-notices"]
        with words.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - the checkout's own cdk
                [sys.executable, "-I", str(_TIED), *line],
                cwd=folder,
                env={**self._environment, **environment},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield Command(name, process, words)
        finally:
            if process.stdin is not None:
                # Which ends it, if it has not ended.
                process.stdin.close()
            process.wait()
