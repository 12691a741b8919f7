"""`ddbload status` and `report`: what the ledger says of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ddbload.cli.options import aws_options, ledger_option, run_argument, stack_option
from ddbload.cli.output import Result, tell
from ddbload.cli.places import place_given
from ddbload.errors import RunNotFound

if TYPE_CHECKING:
    from ddbload.cli.places import Place
    from ddbload.pipeline.executions import Execution


@click.command("status", short_help="How far a run has come.")
@run_argument
@ledger_option
@stack_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status_command(run: str, as_json: bool, **place: Any) -> int:
    """Say how far RUN has come: what its ledger proves, at this moment.

    RUN is looked for in the local ledger, then in the deployed stack.
    """
    from ddbload.pipeline.follow import run_status
    from ddbload.pipeline.report import last_report, reconcile

    there = place_given(run, **place)
    context = there.context
    ledger = context.ledger(run)
    execution = _execution(run, there)
    if execution is not None and ledger.find_record() is None:
        return _never_begun(run, execution, as_json)
    record = ledger.record()
    now = reconcile(record, ledger, context.now() - record.created)
    last = last_report(ledger)
    state = last.status if last is not None else "NOT REPORTED"
    if execution is not None:
        state = run_status(execution, last)
        if execution.failure is not None and not now.failures:
            now = replace(now, error=execution.failure)
    if as_json:
        value = {**now.to_json(), "status": state, "source": record.payload.source.uri}
        value |= {"table": record.table.name, "execution": execution and execution.arn}
        click.echo(json.dumps(value))
        return 0
    share = 100 * now.bytes // max(1, now.size)
    lines = [
        f"run {run}: {state}",
        f"  from      {record.payload.source.uri}",
        f"  into      {record.table.name}",
        f"  chunks    {now.chunks_done:,} of {now.chunks:,} done, {share} % of the bytes",
        (
            f"  rows      {now.rows.read:,} settled: {now.rows.written:,} written,"
            f" {now.rows.rejected:,} rejected, {now.rows.superseded:,} superseded,"
            f" {now.rows.skipped:,} skipped"
        ),
    ]
    if execution is not None:
        lines.append(f"  execution {execution.arn}")
    if now.error is not None and not (execution is not None and execution.running):
        lines.append(f"  missing   {now.error.name}: {now.error.message}")
    click.echo("\n".join(lines))
    return 0


@click.command("report", short_help="What a run came to, reconciled from its ledger.")
@run_argument
@ledger_option
@stack_option
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def report_command(run: str, as_json: bool, **place: Any) -> int:
    """Add up RUN's ledger and check it. Exit status as that of the import."""
    result = _report(run, place_given(run, **place))
    if as_json:
        click.echo(json.dumps(result.to_json()))
    else:
        click.echo("\n".join(result.lines()))
    if result.error is not None:
        tell(f"ddbload: {result.error.name}: {result.error.message}")
    return result.exit_code


def _report(run: str, there: Place) -> Result:
    from ddbload.pipeline.follow import concluded, run_status
    from ddbload.pipeline.report import review

    execution = _execution(run, there)
    if execution is None:
        return Result.of(review(run, there.context))
    if execution.running:
        tell(f"ddbload: run {run} is under way; what follows is how far it is")
        if there.context.ledger(run).find_record() is None:
            return Result.unreported(run, execution.status, None, execution.seconds)
        so_far = replace(review(run, there.context), status=execution.status, error=None)
        return Result.of(so_far, seconds=execution.seconds)
    found = concluded(run, execution, there.context)
    if found is None:
        return Result.unreported(run, run_status(execution), execution.failure, execution.seconds)
    return Result.of(found)


def _execution(run: str, there: Place) -> Execution | None:
    """The run's last execution, where a stack has it."""
    if there.deployed is None:
        return None
    found = there.deployed.last_execution(run)
    if found is None and there.context.ledger(run).find_record() is None:
        raise RunNotFound(f"there is no run {run} in stack {there.deployed.stack.name}")
    return found


def _never_begun(run: str, execution: Execution, as_json: bool) -> int:
    """Status of a run that has no ledger yet, or came to none."""
    from ddbload.pipeline.follow import run_status

    failure, status = execution.failure, run_status(execution)
    if as_json:
        error = None if failure is None else failure.to_json()
        value = {"run": run, "status": status, "execution": execution.arn}
        click.echo(json.dumps({**value, "error": error}))
        return 0
    lines = [f"run {run}: {status}", f"  execution {execution.arn}"]
    if failure is not None:
        lines.append(f"  error     {failure.name}: {failure.message}")
    click.echo("\n".join(lines))
    return 0
