"""`ddbload deploy` and `ddbload destroy`: create, update or remove the stack."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ddbload import __version__
from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.retry import call_with_retries
from ddbload.cli import options
from ddbload.cli.run_location import option_words
from ddbload.cli.terminal import (
    Output,
    ask_to_agree,
    has_terminal_input,
    print_stderr,
    print_stdout,
)
from ddbload.deploy import stack_settings as known
from ddbload.deploy import toolchain
from ddbload.deploy.cdk import Cdk
from ddbload.deploy.stack_settings import DeployedStack, find_deployed_stack, first_failure
from ddbload.errors import AccessDenied, DdbloadError, DeploymentFailed, StackNotFound
from ddbload.records import Record
from ddbload.runs.deployed import DEFAULT_STACK, Stack, describe_stack, find_stack
from ddbload.runs.run_location import stack_name
from ddbload.steps.executions import EXECUTION_RUNNING, Executions

BOOTSTRAP_STACK = "CDKToolkit"
"""Bootstrap stack of the AWS CDK, shared by all CDK apps of an account and region."""

stack_name_option = options.deployment_option(
    "--stack",
    "--stack-name",
    metavar="NAME",
    help="Name of the stack.",
    show_default="$DDBLOAD_STACK, or ddbload",
)


agree_option = partial(options.deployment_option, "--yes", is_flag=True)


class StackPlace(Record):
    """Account and region of a stack, and the stack's current state."""

    stack: str
    account: str
    region: str
    deployed: DeployedStack | None
    bootstrapped: bool
    clients: Clients
    environment: Mapping[str, str]
    """Environment variables that give cdk the same account and credentials."""

    @property
    def known_settings(self) -> Mapping[str, Any] | None:
        return None if self.deployed is None else self.deployed.settings

    def describe(self) -> list[str]:
        where = f"stack {self.stack} in account {self.account}, {self.region}"
        if self.deployed is None:
            return [f"{where}: new, by ddbload {__version__}"]
        by = self.deployed.version or "an earlier version"
        return [f"{where}: deployed by ddbload {by}, to be updated by {__version__}"]

    def to_json(self) -> dict[str, Any]:
        return {"stack": self.stack, "account": self.account, "region": self.region}


def find_stack_place(aws: AwsSettings, stack: str | None) -> StackPlace:
    """Read the caller's identity and the deployed stack. Raises AWS's errors."""
    clients = Clients(aws)
    name = stack_name(stack)
    sts = clients.service("sts")
    identity: Any = call_with_retries(sts.get_caller_identity, "asking for the caller's account")
    return StackPlace(
        stack=name,
        account=identity["Account"],
        region=sts.meta.region_name,
        deployed=find_deployed_stack(clients.cloudformation, name),
        bootstrapped=_is_bootstrapped(clients),
        clients=clients,
        environment=_variables(clients, aws, sts.meta.region_name),
    )


def _is_bootstrapped(clients: Clients) -> bool:
    try:
        return describe_stack(clients.cloudformation, BOOTSTRAP_STACK) is not None
    except AccessDenied:
        # A caller without permission to describe the stack cannot bootstrap either; cdk reports the
        # missing permission.
        return True


def _variables(clients: Clients, aws: AwsSettings, region: str) -> dict[str, str]:
    """Return environment variables with these credentials, so that cdk uses no others.

    They are passed to cdk's process only, and never written to a file.
    """
    session = clients.session()
    credentials = session.get_credentials()
    if credentials is None:
        raise AccessDenied("no AWS credentials were found; set AWS_PROFILE or give --profile")
    frozen = credentials.get_frozen_credentials()
    given = {
        "AWS_ACCESS_KEY_ID": frozen.access_key,
        "AWS_SECRET_ACCESS_KEY": frozen.secret_key,
        "AWS_SESSION_TOKEN": frozen.token,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CA_BUNDLE": session.get_config_variable("ca_bundle"),
        "AWS_ENDPOINT_URL": aws.endpoint_url,
    }
    endpoints = {
        name: value for name, value in os.environ.items() if name.startswith("AWS_ENDPOINT_URL")
    }
    return {**endpoints, **{name: value for name, value in given.items() if value}}


def confirm(what: str, question: str, *, yes: bool) -> None:
    """Print what will be done, and ask. Raises `InvalidUsage` if declined or without a terminal."""
    tell(what)
    if yes:
        return
    ask_to_agree(
        question,
        unasked="there is no terminal to ask on: give --yes to agree",
        declined="declined: nothing was done",
    )


def tell(text: str) -> None:
    """Print a line on stderr, prefixed with `ddbload:`."""
    print_stderr(f"ddbload: {text}")


@options.command(
    "ddbload deploy --table books --source-bucket my-bucket --upload books/=books",
    "ddbload deploy --table films --dry-run",
    "ddbload deploy --set tables=films --set dashboard=true",
)
def deploy_command(
    tables: tuple[str, ...] = options.deployment_option(
        "--table", metavar="NAME", multiple=True, help="Table that runs may write (repeatable)."
    ),
    source_buckets: tuple[str, ...] = options.deployment_option(
        "--source-bucket",
        metavar="BUCKET[/PREFIX]",
        multiple=True,
        help="Bucket that runs may read, besides the stack's inbox (repeatable).",
    ),
    uploads: tuple[str, ...] = options.deployment_option(
        "--upload",
        metavar="PREFIX=TABLE",
        multiple=True,
        help="Load uploads to the inbox whose keys begin with PREFIX into TABLE (repeatable).",
    ),
    assignments: tuple[str, ...] = options.deployment_option(
        "--set",
        metavar="KEY=VALUE",
        multiple=True,
        help="Set any setting of docs/deploy.md, such as dashboard=true, or a whole list, such as"
        " tables=books,films; an empty VALUE restores the default. Repeatable.",
    ),
    replace: bool = options.deployment_option(
        is_flag=True,
        help="Start from the defaults, not from the settings that the stack was deployed with.",
    ),
    stack: str | None = stack_name_option,
    dry_run: bool = options.deployment_option(
        is_flag=True, help="Show what would change, by `cdk diff`, and change nothing."
    ),
    yes: bool = agree_option(
        help="Do not ask before installing tools, bootstrapping, and deploying."
    ),
    aws: AwsSettings = options.aws_options,
    output: Output = options.output_options(),
) -> None:
    """Deploy the state machine, its functions, an inbox bucket and a work bucket.

    The stack keeps its settings: a later deployment changes only the settings that are given, and
    shows the difference first. --table films adds a table, and --set tables=films replaces all
    tables by that one; without options the stack is updated to this version. The tables must exist;
    none is created, changed or removed.

    Needs Node.js 22 or newer. The AWS CDK is installed into a private folder in ~/.cache/ddbload
    ($XDG_CACHE_HOME), after asking; nothing else on this machine changes. If the account and region
    are not bootstrapped for the CDK, they are bootstrapped.
    """
    assigned = known.parse_assignments(assignments)
    rules = [known.parse_upload(each) for each in uploads]
    toolchain.check_node()
    place = find_stack_place(aws, stack)
    settings = known.merge_settings(
        (place.known_settings if not replace else None) or {},
        tables=tables,
        source_buckets=source_buckets,
        uploads=rules,
        assigned=assigned,
    )
    with tempfile.TemporaryDirectory(prefix="ddbload-deploy-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        app = folder / "app"
        toolchain.copy_app(app, {**settings, "stack_name": place.stack})
        known.check_app_settings(app, {**settings, "stack_name": place.stack})
        show = print_stdout if dry_run and not output.as_json else print_stderr
        show(
            *place.describe(),
            *known.describe_changes(place.known_settings, settings),
            *([] if settings.get("tables") else ["no table may be written: give --table"]),
        )
        agree_to_tools(toolchain.DEPLOY_TOOLS, yes=yes)
        tools = toolchain.install(toolchain.DEPLOY_TOOLS, show)
        cdk = Cdk(folder, tools, app, {})
        show("synthesizing ...")
        with cdk.synth() as synth:
            synth.wait()
        if dry_run:
            with cdk.diff(place.environment, security=False) as diff:
                shown = diff.wait()
            value = {**place.to_json(), "settings": settings, "changes": shown}
            output.show(value, *shown.splitlines(), "nothing was changed")
            return
        _agree_to_deployment(place, cdk, yes=yes)
        if not place.bootstrapped:
            show(f"bootstrapping {place.account} in {place.region} ...")
            with cdk.bootstrap(place.account, place.region, place.environment) as bootstrap:
                bootstrap.wait()
        show(f"deploying stack {place.stack} ...")
        with cdk.deploy(place.environment) as deploy:
            deploy.wait(_show_event)
    made = find_stack(place.clients.cloudformation, place.stack)
    value = {
        **place.to_json(),
        "version": __version__,
        "state_machine": made.state_machine,
        "inbox_bucket": made.inbox_bucket,
        "work_bucket": made.work_bucket,
        "settings": settings,
    }
    output.show(
        value,
        f"stack {made.name}: deployed by ddbload {__version__}",
        f"  inbox     s3://{made.inbox_bucket}",
        f"  work      s3://{made.work_bucket}",
        f"  machine   {made.state_machine}",
        *_next_commands(made, settings, aws),
    )


def agree_to_tools(tools: toolchain.ToolSet, *, yes: bool) -> None:
    """Print what will be installed and ask, unless it is installed already.

    Raises `InvalidUsage` if the user declines, and `ToolsUnavailable`.
    """
    toolchain.check_node()
    if toolchain.is_installed(tools):
        return
    what = (
        f"{tools.purpose} ({tools.megabytes} MB on disk) will be installed into"
        f" {toolchain.tools_folder(tools)}; delete that folder to remove it"
    )
    confirm(what, "Install it?", yes=yes)


def _agree_to_deployment(place: StackPlace, cdk: Cdk, *, yes: bool) -> None:
    """Show the permissions that the deployment gets, and ask."""
    if not place.bootstrapped:
        tell(
            f"{place.region} of account {place.account} has not been bootstrapped for the AWS CDK:"
            f" the stack {BOOTSTRAP_STACK} will be made, with a bucket and roles that all CDK apps"
            " share"
        )
    if not yes and has_terminal_input():
        with cdk.diff(place.environment, security=True) as diff:
            shown = diff.wait().splitlines()
        # Without bootstrapping, cdk would ask for confirmation, and its standard input is closed.
        drop = ("cdk-bootstrap", "Please confirm")
        print_stderr(*(line for line in shown if not any(each in line for each in drop)))
    confirm(
        f"stack {place.stack} in account {place.account}, {place.region} will be"
        f" {'updated' if place.deployed else 'made'}",
        "Deploy it?",
        yes=yes,
    )


def _show_event(line: str) -> None:
    """Print cdk's lines about resources; its other lines do not concern the deployment."""
    if " | " in line:
        print_stderr(f"  {line}")


def _next_commands(stack: Stack, settings: Mapping[str, Any], aws: AwsSettings) -> Iterator[str]:
    """Yield commands that use the deployed stack."""
    named = stack.name if stack.name != DEFAULT_STACK else None
    words = option_words(aws, stack=named)
    more = f" {shlex.join(words)}" if words else ""
    tables = settings.get("tables", [])
    if not tables:
        return
    yield "next:"
    for rule in settings.get("uploads", []):
        if rule.get("bucket") is None:
            where = shlex.quote(f"s3://{stack.inbox_bucket}/{rule['prefix']}")
            yield f"  aws s3 cp FILE {where}    # starts a run into {rule['table']}"
            yield f"  ddbload runs{more or f' --stack {stack.name}'}"
            break
    yield f"  ddbload start s3://BUCKET/KEY {tables[0]}{more}"
    yield f"  ddbload doctor {tables[0]}{more}"


@options.command(
    "ddbload destroy",
    "ddbload destroy --stack staging",
    "ddbload destroy --stack staging --yes --json",
)
def destroy_command(
    stack: str | None = stack_name_option,
    yes: bool = agree_option(help="Do not ask before removing the stack."),
    aws: AwsSettings = options.aws_options,
    output: Output = options.output_options(),
) -> None:
    """Remove the deployed stack: the state machine, its functions, queues, rules and roles.

    The inbox and the work bucket are kept, with your uploads and the record of your runs; so are
    your tables. The command prints how to delete the buckets. The stack CDKToolkit is kept too: all
    CDK apps of the account and region share it.
    """
    place = find_stack_place(aws, stack)
    if place.deployed is None:
        raise StackNotFound(f"there is no stack {place.stack} in {place.region}: nothing to remove")
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
    lines = [f"stack {place.stack}: removed"]
    if kept:
        lines.append("kept; once you need nothing in them any more, empty and delete them:")
    lines += [f"  s3://{each}" for each in kept]
    output.show({**place.to_json(), "kept_buckets": kept}, *lines)


def _buckets(client: Any, stack: str) -> list[str]:
    """List the buckets that the stack's template retains."""

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
    """Count running executions, 100 at most; 0 if they cannot be read."""
    try:
        stack = find_stack(place.clients.cloudformation, place.stack)
        executions = Executions(place.clients.stepfunctions, stack.state_machine)
        return len(executions.newest(100, EXECUTION_RUNNING))
    except DdbloadError:
        return 0


def _wait_until_removed(place: StackPlace) -> None:
    """Wait until the stack is removed. Raises `DeploymentFailed` with the first reason."""
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
