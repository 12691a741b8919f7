"""`ddbload cancel` and `ddbload limit`: control a run that other processes or functions work on."""

from __future__ import annotations

import click

from ddbload.cli.options import GroupedCommand, json_option, limit_options
from ddbload.cli.output import EXIT_DONE, EXIT_FAILED, print_json, print_stderr, print_stdout
from ddbload.cli.run_location import NamedRun, RunLocation, run_options
from ddbload.contracts.control import MAX_CONTROL_SECONDS, Control
from ddbload.contracts.write_price import amount_text
from ddbload.errors import InvalidUsage, RunNotFound
from ddbload.runs.run_control import cancel_run, change_limits
from ddbload.runs.run_status import wait_for_begin
from ddbload.steps.read_run import why_not_resumable


@click.command(
    "cancel",
    cls=GroupedCommand,
    examples=(
        "ddbload cancel 20261121T073000Z-1f2e3d",
        "ddbload cancel 20261121T073000Z-1f2e3d --stack my-loader",
        "ddbload cancel 20261121T073000Z-1f2e3d --json",
    ),
)
@run_options
@json_option
def cancel_command(named: NamedRun, as_json: bool) -> int:
    """Stop RUN, and return when no worker writes any more.

    Workers stop within 5 seconds, after the answers to their requests. Workers that do not say
    that they have stopped are named, and the exit status is 1. `ddbload resume` takes the run up
    again, where it stopped.

    RUN is looked up in the local ledger, then in the deployed stack.
    """
    run, there = named.run, _find_begun_run(named)
    deployed = there.deployed
    ended = cancel_run(
        run,
        there.context,
        executions=None if deployed is None else deployed.executions,
        execution=None if deployed is None else deployed.last_execution(run),
    )
    status = "CANCELLED" if ended.report is None else ended.report.status
    if as_json:
        report = None if ended.report is None else ended.report.to_json()
        value = {"run": run, "status": status, "silent": list(ended.silent), "report": report}
        print_json(value)
    if ended.stop_refused is not None:
        print_stderr(
            f"ddbload: the execution could not be stopped ({ended.stop_refused}); it ends by"
            " itself, and writes nothing"
        )
    for each in ended.silent:
        print_stderr(f"ddbload: not confirmed: {each}")
    if not as_json:
        if ended.already_done:
            print_stdout(f"run {run} has ended before: {status}; there is nothing to cancel")
        else:
            print_stdout(f"run {run}: {status}")
            if ended.report is not None:
                seen = there.read(run)
                advice = ""
                if not seen.state.done and why_not_resumable(seen) is None:
                    advice = f"; to resume: {named.command('resume')}"
                print_stdout(f"  {ended.report.rows.read:,} rows are done{advice}")
    return EXIT_FAILED if ended.silent else EXIT_DONE


def _find_begun_run(named: NamedRun) -> RunLocation:
    """Find a run to cancel, which may have been started a moment ago."""
    if named.stack is not None:
        return named.find()
    run, local = named.run, named.local
    try:
        there = named.find()
    except RunNotFound as error:
        there, missing = RunLocation(local), error.message
    else:
        if named.ledger is None:
            return there
        missing = f"there is no run {run} in the ledger at {local.store.uri('runs')}"
    if wait_for_begin(run, local):
        return there
    raise RunNotFound(f"{missing}; if it was started just now, it goes on: repeat the command")


@click.command(
    "limit",
    cls=GroupedCommand,
    examples=(
        "ddbload limit 20261121T073000Z-1f2e3d --max-wcu 500",
        "ddbload limit 20261121T073000Z-1f2e3d --max-wcu none --max-cost 25",
        "ddbload limit 20261121T073000Z-1f2e3d --max-wcu 50% --stack my-loader",
    ),
)
@limit_options("unchanged")
@run_options
@json_option
def limit_command(
    named: NamedRun,
    max_wcu: float | str | None,
    max_cost: float | str | None,
    as_json: bool,
) -> int:
    """Change the limits of RUN while it runs, or before it is resumed.

    Its workers obey within 5 seconds, and share the limits. They stay in force when the run is
    resumed.

    RUN is looked up in the local ledger, then in the deployed stack.
    """
    if max_wcu is None and max_cost is None:
        raise InvalidUsage("give a limit: --max-wcu or --max-cost, or both")
    run, there = named.run, named.find()
    before, after = change_limits(run, there.context, max_wcu=max_wcu, max_cost=max_cost)
    if as_json:
        limits = {"max_wcu": after.max_wcu, "max_cost": after.max_cost}
        print_json({"run": run, "state": after.state, **limits})
        return EXIT_DONE
    print_stdout(f"run {run}: {_limits(after)} (before: {_limits(before)})")
    if after.cancelled:
        print_stdout("  the run is cancelled; the limits hold when it is resumed")
    else:
        print_stdout(f"  workers that run now obey within {MAX_CONTROL_SECONDS + 1:.0f} seconds")
    return EXIT_DONE


def _limits(control: Control) -> str:
    wcu = "any number" if control.max_wcu is None else f"at most {control.max_wcu:,.10g}"
    units = f"{wcu} of write units a second" if control.max_wcu is None else f"{wcu} write units/s"
    cost = "" if control.max_cost is None else f", at most {amount_text(control.max_cost)} in all"
    return units + cost
