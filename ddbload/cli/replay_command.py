"""`ddbload replay`: move uploads that could not start a run back to the upload queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ddbload.cli.options import (
    GroupedCommand,
    aws_options,
    json_option,
    quiet_option,
    run_option,
    stack_option,
)
from ddbload.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    print_json,
    print_stderr,
    print_stdout,
    printable,
)
from ddbload.errors import StackNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.runs.replay import DeadLetter, DeadLetters


@click.command(
    "replay",
    cls=GroupedCommand,
    short_help="Start runs for uploads that could not start one.",
    examples=(
        "ddbload replay --dry-run",
        "ddbload replay --stack my-loader",
        "ddbload replay --json --region eu-west-1",
    ),
)
@run_option("--dry-run", is_flag=True, help="Show the uploads, and move none.")
@stack_option
@aws_options
@json_option
@quiet_option
def replay_command(
    dry_run: bool, stack: str | None, aws: AwsSettings, as_json: bool, quiet: bool
) -> int:
    """Move the stack's dead letters back to its upload queue.

    A dead letter is an upload for which no run could be started in 20 attempts, over two hours:
    permission was missing, for example. Remove the cause first. An upload that has started a run
    before starts no second one, so replay can be repeated.

    Messages that are not uploads stay where they are, and the exit status is then 1.
    """
    name, letters = _dead_letters(stack, aws)
    if dry_run:
        return _show(name, letters, as_json)
    count = 0

    def moved(some: int) -> None:
        nonlocal count
        count += some
        if count % 1000 < some and not quiet:
            print_stderr(f"ddbload: {count:,} dead letters moved")

    done = letters.replay(moved)
    if as_json:
        counts = {"moved": done.moved, "left": done.left, "hidden": done.hidden}
        print_json({"stack": name, **counts})
    elif not quiet:
        print_stdout(f"stack {name}: {_counted(done.moved)} moved to the upload queue")
    if done.hidden:
        print_stderr(
            f"ddbload: {_counted(done.hidden)} in the hands of another command, or of one that was"
            " stopped: run ddbload replay again in a minute"
        )
    if done.left:
        print_stderr(
            f"ddbload: {_counted(done.left)} left, which {'is' if done.left == 1 else 'are'} no"
            " upload's event: ddbload replay --dry-run shows what is wrong"
        )
        return EXIT_FAILED
    return EXIT_DONE


def _dead_letters(stack: str | None, aws: AwsSettings) -> tuple[str, DeadLetters]:
    from ddbload.aws.clients import Clients
    from ddbload.cli.run_location import find_deployed
    from ddbload.runs.replay import LANES, DeadLetters

    found = find_deployed(stack, aws).stack
    if found.upload_queue is None or found.dead_letters is None:
        raise StackNotFound(
            f"stack {found.name} has no upload queue, since an earlier version of ddbload deployed"
            " it: deploy it again"
        )
    client = Clients(aws, LANES).sqs
    return found.name, DeadLetters(client, found.dead_letters, found.upload_queue)


def _show(name: str, letters: DeadLetters, as_json: bool) -> int:
    shown = letters.show()
    count = max(letters.count(), len(shown))
    if as_json:
        uploads = [each.to_json() for each in shown]
        print_json({"stack": name, "dead_letters": count, "uploads": uploads})
        return EXIT_DONE
    print_stdout(*[f"stack {name}: {_counted(count)}", *_lines(shown)])
    if count > len(shown):
        print_stderr(f"ddbload: the first {len(shown):,} are shown")
    return EXIT_DONE


def _lines(shown: list[DeadLetter]) -> Iterator[str]:
    for each in shown:
        upload = each.upload
        what = f"message {each.message_id}"
        if upload is not None:
            version = f" version {upload.version_id}" if upload.version_id else ""
            what = f"s3://{upload.bucket}/{upload.key}{version}"
        yield f"  {each.to_json()['sent']}  {printable(what)}"
        yield f"    {printable(each.error)}"


def _counted(letters: int) -> str:
    return f"{letters:,} dead letter{'' if letters == 1 else 's'}"
