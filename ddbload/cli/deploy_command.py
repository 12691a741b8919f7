"""`ddbload deploy`: make or update the stack, from an installed ddbload."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from ddbload import __version__
from ddbload.aws.clients import AwsSettings
from ddbload.cli.options import GroupedCommand, aws_options, deployment_option, json_option
from ddbload.cli.output import EXIT_DONE, has_terminal_input, print_json, print_stderr, print_stdout
from ddbload.cli.stack_place import (
    BOOTSTRAP_STACK,
    StackPlace,
    agree_option,
    confirm,
    find_stack_place,
    stack_name_option,
    tell,
)
from ddbload.deploy import stack_settings as known
from ddbload.deploy.cdk import Cdk
from ddbload.deploy.stack_settings import DeployedStack
from ddbload.deploy.toolchain import (
    DEPLOY_TOOLS,
    ToolSet,
    check_node,
    copy_app,
    install,
    is_installed,
    tools_folder,
)
from ddbload.errors import InvalidUsage
from ddbload.runs.deployed import DEFAULT_STACK, Stack, find_stack


@click.command(
    "deploy",
    cls=GroupedCommand,
    examples=(
        "ddbload deploy --table books --source-bucket my-bucket --upload books/=books",
        "ddbload deploy --table films --dry-run",
        "ddbload deploy --set tables=films --set dashboard=true",
    ),
)
@deployment_option(
    "--table",
    "tables",
    metavar="NAME",
    multiple=True,
    help="Table that runs may write (repeatable).",
)
@deployment_option(
    "--source-bucket",
    "source_buckets",
    metavar="BUCKET[/PREFIX]",
    multiple=True,
    help="Bucket that runs may read, besides the stack's inbox (repeatable).",
)
@deployment_option(
    "--upload",
    "uploads",
    metavar="PREFIX=TABLE",
    multiple=True,
    help="Load uploads to the inbox whose keys begin with PREFIX into TABLE (repeatable).",
)
@deployment_option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set any setting of docs/deploy.md, such as dashboard=true, or a whole list, such as"
    " tables=books,films; an empty VALUE restores the default. Repeatable.",
)
@deployment_option(
    "--replace",
    is_flag=True,
    help="Start from the defaults, not from the settings that the stack was deployed with.",
)
@stack_name_option
@deployment_option(
    "--dry-run", is_flag=True, help="Show what would change, by `cdk diff`, and change nothing."
)
@agree_option(help="Do not ask before installing tools, bootstrapping, and deploying.")
@aws_options
@json_option
def deploy_command(
    *,
    tables: tuple[str, ...],
    source_buckets: tuple[str, ...],
    uploads: tuple[str, ...],
    assignments: tuple[str, ...],
    replace: bool,
    stack: str | None,
    dry_run: bool,
    yes: bool,
    aws: AwsSettings,
    as_json: bool,
) -> int:
    """Deploy the state machine, its functions, an inbox bucket and a work bucket.

    The stack keeps its settings: a later deployment changes only those that it is given, and shows
    the difference first. --table films adds a table, and --set tables=films leaves that one only;
    without options the stack is brought to this version. Tables exist already; none is created,
    changed or removed.

    Needs Node.js 22 or newer. The AWS CDK is installed into a private folder in ~/.cache/ddbload
    ($XDG_CACHE_HOME), after asking; nothing else on this machine changes. If the account and region
    have not been bootstrapped for the CDK, they are.
    """
    assigned = known.parse_assignments(assignments)
    rules = [known.parse_upload(each) for each in uploads]
    check_node()
    place = find_stack_place(aws, stack)
    recorded = _recorded(place.deployed, replace=replace)
    settings = known.merge_settings(
        recorded, tables=tables, source_buckets=source_buckets, uploads=rules, assigned=assigned
    )
    with tempfile.TemporaryDirectory(prefix="ddbload-deploy-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        app = folder / "app"
        copy_app(app, {**settings, "stack_name": place.stack})
        known.check_app_settings(app, {**settings, "stack_name": place.stack})
        show = print_stdout if dry_run and not as_json else print_stderr
        show(
            *place.describe(),
            *known.describe_changes(place.known_settings, settings),
            *([] if settings.get("tables") else ["no table may be written: give --table"]),
        )
        agree_to_tools(DEPLOY_TOOLS, yes=yes)
        tools = install(DEPLOY_TOOLS, show)
        cdk = Cdk(folder, tools, app, {})
        show("synthesizing ...")
        with cdk.synth() as synth:
            synth.wait()
        if dry_run:
            with cdk.diff(place.environment, security=False) as diff:
                shown = diff.wait()
            if as_json:
                print_json({**place.to_json(), "settings": settings, "changes": shown})
            else:
                print_stdout(*shown.splitlines(), "nothing was changed")
            return EXIT_DONE
        _agree_to_deployment(place, cdk, yes=yes)
        if not place.bootstrapped:
            show(f"bootstrapping {place.account} in {place.region} ...")
            with cdk.bootstrap(place.account, place.region, place.environment) as bootstrap:
                bootstrap.wait()
        show(f"deploying stack {place.stack} ...")
        with cdk.deploy(place.environment) as deploy:
            deploy.wait(_show_event)
    return _print_deployed(place, settings, aws, as_json=as_json)


def _recorded(deployed: DeployedStack | None, *, replace: bool) -> Mapping[str, Any]:
    """Return the settings to start from. Raises `InvalidUsage` if they are not recorded."""
    if deployed is None or replace:
        return {}
    if deployed.settings is None:
        raise InvalidUsage(
            f"stack {deployed.name} was deployed by an earlier version, which did not record its"
            " settings: give all that it should have, and --replace"
        )
    return deployed.settings


def agree_to_tools(tools: ToolSet, *, yes: bool) -> None:
    """Tell what will be installed, and ask, unless it is there.

    Raises `InvalidUsage` for a no, and `ToolsUnavailable`.
    """
    check_node()
    if is_installed(tools):
        return
    what = (
        f"{tools.purpose} ({tools.megabytes} MB on disk) will be installed into"
        f" {tools_folder(tools)}; delete that folder to remove it"
    )
    confirm(what, "Install it?", yes=yes)


def _agree_to_deployment(place: StackPlace, cdk: Cdk, *, yes: bool) -> None:
    """Show what the deployment will be allowed to do, and ask."""
    if not place.bootstrapped:
        tell(
            f"{place.region} of account {place.account} has not been bootstrapped for the AWS CDK:"
            f" the stack {BOOTSTRAP_STACK} will be made, with a bucket and roles that all CDK apps"
            " share"
        )
    if not yes and has_terminal_input():
        with cdk.diff(place.environment, security=True) as diff:
            shown = diff.wait().splitlines()
        # Without bootstrapping cdk asks for it, and nobody can answer what it asks to confirm.
        drop = ("cdk-bootstrap", "Please confirm")
        print_stderr(*(line for line in shown if not any(each in line for each in drop)))
    confirm(
        f"stack {place.stack} in account {place.account}, {place.region} will be"
        f" {'updated' if place.deployed else 'made'}",
        "Deploy it?",
        yes=yes,
    )


def _show_event(line: str) -> None:
    """Print a line about a resource; cdk's others say nothing about the deployment."""
    if " | " in line:
        print_stderr(f"  {line}")


def _print_deployed(
    place: StackPlace, settings: Mapping[str, Any], aws: AwsSettings, *, as_json: bool
) -> int:

    stack = find_stack(place.clients.cloudformation, place.stack)
    if as_json:
        print_json(
            {
                **place.to_json(),
                "version": __version__,
                "state_machine": stack.state_machine,
                "inbox_bucket": stack.inbox_bucket,
                "work_bucket": stack.work_bucket,
                "settings": settings,
            }
        )
        return EXIT_DONE
    lines = [
        f"stack {stack.name}: deployed by ddbload {__version__}",
        f"  inbox     s3://{stack.inbox_bucket}",
        f"  work      s3://{stack.work_bucket}",
        f"  machine   {stack.state_machine}",
    ]
    print_stdout(*lines, *_next_commands(stack, settings, aws))
    return EXIT_DONE


def _next_commands(stack: Stack, settings: Mapping[str, Any], aws: AwsSettings) -> Iterator[str]:
    """Yield commands that use the stack as it was deployed."""
    given = {
        "--stack": stack.name if stack.name != DEFAULT_STACK else None,
        "--profile": aws.profile,
        "--region": aws.region,
    }
    more = "".join(f" {name} {shlex.quote(value)}" for name, value in given.items() if value)
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
