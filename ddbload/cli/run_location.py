"""Options that locate a run, and commands that name it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import click  # noqa: TC002 - loaded already

from ddbload import errors
from ddbload.aws.clients import AwsSettings
from ddbload.cli import options
from ddbload.contracts.options import DEFAULT_CONCURRENCY
from ddbload.contracts.payload import check_run_id
from ddbload.records import Record
from ddbload.runs.local_runs import LocalSettings, default_ledger
from ddbload.runs.run_location import RunLocation, find_run


def option_words(aws: AwsSettings, **more: str | None) -> list[str]:
    """Return options for a command on the same account: those in `more`, then AWS options."""
    given = {
        **{f"--{name}": value for name, value in more.items()},
        "--profile": aws.profile,
        "--region": aws.region,
        "--endpoint-url": aws.endpoint_url,
    }
    return [word for name, value in given.items() if value is not None for word in (name, value)]


class NamedRun(Record):
    """Run id given on the command line, and the options that locate the run."""

    run: str
    ledger: str | None
    stack: str | None
    aws: AwsSettings

    def command(self, name: str, run: str | None = None) -> str:
        """Return a command, such as `resume`, for this run or another in the same ledger."""
        words = ["ddbload", name, run or self.run]
        words += option_words(self.aws, ledger=self.ledger, stack=self.stack)
        words += ["--requester-pays"] if self.aws.requester_pays else []
        return shlex.join(words)

    def settings(self, payload: Mapping[str, Any]) -> LocalSettings:
        """Return the settings for a run on this machine."""
        concurrency = payload["options"].get("concurrency", DEFAULT_CONCURRENCY)
        return LocalSettings(self.ledger or default_ledger(), self.aws, concurrency)

    def find(self) -> RunLocation:
        """Find the run. Raises as `find_run`."""
        return find_run(self.run, self.ledger, self.stack, self.aws)


def _checked_run(_context: click.Context, _parameter: click.Parameter, run: str) -> str:
    try:
        return check_run_id(run)
    except errors.InvalidPayload as error:
        raise errors.InvalidUsage(f"RUN {run!r}: {error.message}") from None


run_options: Any = options.Gathered(
    NamedRun,
    {
        "run": options.argument(callback=_checked_run),
        "ledger": options.ledger_option,
        "stack": options.stack_option,
        "aws": options.aws_options,
    },
)
"""The argument RUN, and the options that locate the run."""
