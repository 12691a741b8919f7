"""`ddbload destroy`: remove the stack that was deployed."""

from __future__ import annotations

import time
from typing import Any

import click

from ddbload.aws.clients import AwsSettings
from ddbload.aws.retry import call_if_possible, call_with_retries
from ddbload.cli.options import GroupedCommand, aws_options, json_option
from ddbload.cli.output import EXIT_DONE, print_json, print_stdout
from ddbload.cli.stack_place import (
    BOOTSTRAP_STACK,
    StackPlace,
    agree_option,
    confirm,
    find_stack_place,
    stack_name_option,
    tell,
)
from ddbload.deploy.stack_settings import find_deployed_stack, first_failure
from ddbload.errors import DdbloadError, DeploymentFailed, StackNotFound
from ddbload.runs.deployed import find_stack


@click.command(
    "destroy",
    cls=GroupedCommand,
    examples=(
        "ddbload destroy",
        "ddbload destroy --stack staging",
        "ddbload destroy --stack staging --yes --json",
    ),
)
@stack_name_option
@agree_option(help="Do not ask before removing the stack.")
@aws_options
@json_option
def destroy_command(*, stack: str | None, yes: bool, aws: AwsSettings, as_json: bool) -> int:
    """Remove the deployed stack: the state machine, its functions, queues, rules and roles.

    The inbox and the work bucket stay, with your uploads and the record of your runs; so do your
    tables. The command prints how to delete the buckets. The stack CDKToolkit stays too: all CDK
    apps of the account and region share it.
    """
    place = find_stack_place(aws, stack)
    if place.deployed is None:
        raise StackNotFound(f"there is no stack {place.stack} in {place.region}: nothing to remove")
    if place.deployed.protected:
        raise DeploymentFailed(
            f"stack {place.stack} is protected from deletion: switch its termination protection off"
            " first (aws cloudformation update-termination-protection)"
        )
    client = place.clients.cloudformation
    kept = _buckets(client, place.stack)
    running = _count_running(place)
    tell(
        "these stay, with what is in them: "
        + ", ".join([*(f"s3://{each}" for each in kept), "your tables", BOOTSTRAP_STACK])
    )
    if running:
        tell(f"{running} runs are under way, and will end unfinished")
    confirm(
        f"stack {place.stack} in account {place.account}, {place.region} will be removed",
        "Remove it?",
        yes=yes,
    )
    call_with_retries(
        lambda: client.delete_stack(StackName=place.stack), f"removing stack {place.stack}"
    )
    _wait_until_removed(place)
    if as_json:
        print_json({**place.to_json(), "kept_buckets": kept})
        return EXIT_DONE
    print_stdout(f"stack {place.stack}: removed")
    if kept:
        print_stdout("kept; once you need nothing in them any more, empty and delete them:")
        print_stdout(*(f"  s3://{each}" for each in kept))
    return EXIT_DONE


def _buckets(client: Any, stack: str) -> list[str]:
    """List the buckets of a stack, which its template retains."""

    def find() -> list[str]:
        pages = client.get_paginator("list_stack_resources").paginate(StackName=stack)
        return [
            each["PhysicalResourceId"]
            for page in pages
            for each in page["StackResourceSummaries"]
            if each["ResourceType"] == "AWS::S3::Bucket" and each.get("PhysicalResourceId")
        ]

    return sorted(call_with_retries(find, f"listing the resources of stack {stack}"))


def _count_running(place: StackPlace) -> int:
    """Count running executions, at most a hundred; 0 where they cannot be read."""
    try:
        stack = find_stack(place.clients.cloudformation, place.stack)
    except DdbloadError:
        return 0
    found: Any = call_if_possible(
        lambda: place.clients.stepfunctions.list_executions(
            stateMachineArn=stack.state_machine, statusFilter="RUNNING", maxResults=100
        ),
        "listing running executions",
    )
    return len(found["executions"]) if found else 0


def _wait_until_removed(place: StackPlace) -> None:
    """Wait for the end of the removal. Raises `DeploymentFailed` with the first reason."""
    client = place.clients.cloudformation
    while True:
        found = find_deployed_stack(client, place.stack)
        if found is None or found.status == "DELETE_COMPLETE":
            return
        if found.status.endswith("_FAILED"):
            raise DeploymentFailed(
                f"stack {place.stack} could not be removed: {first_failure(client, place.stack)};"
                " remove the cause, and repeat ddbload destroy"
            )
        time.sleep(2)
