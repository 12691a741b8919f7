"""Find the stack that `ddbload deploy` and `ddbload destroy` work on, and ask whether to go on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ddbload import __version__
from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.retry import call_with_retries
from ddbload.cli.options import deployment_option
from ddbload.cli.output import ask_to_agree, print_stderr
from ddbload.deploy.stack_settings import DeployedStack, find_deployed_stack
from ddbload.errors import AccessDenied, RequestRefused
from ddbload.runs.deployed import DEFAULT_STACK

BOOTSTRAP_STACK = "CDKToolkit"
"""Stack of the AWS CDK, which all its apps of an account and region share."""

stack_name_option = deployment_option(
    "--stack",
    "--stack-name",
    "stack",
    metavar="NAME",
    help="Name of the stack.",
    show_default="$DDBLOAD_STACK, or ddbload",
)


agree_option = partial(deployment_option, "--yes", is_flag=True)


@dataclass(frozen=True, slots=True)
class StackPlace:
    """Account and region of a stack, and what is deployed there."""

    stack: str
    account: str
    region: str
    deployed: DeployedStack | None
    bootstrapped: bool
    clients: Clients
    environment: Mapping[str, str]
    """Variables by which programs reach the same account with the same credentials."""

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
    """Ask AWS who calls and what is deployed. Raises AWS's errors."""
    clients = Clients(aws)
    name = stack or os.environ.get("DDBLOAD_STACK") or DEFAULT_STACK
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

    client = clients.cloudformation
    try:
        call_with_retries(
            lambda: client.describe_stacks(StackName=BOOTSTRAP_STACK),
            f"looking up stack {BOOTSTRAP_STACK}",
        )
    except RequestRefused:
        return False
    except AccessDenied:
        # Who may not look may not bootstrap either: cdk will say what is missing.
        return True
    return True


def _variables(clients: Clients, aws: AwsSettings, region: str) -> dict[str, str]:
    """Return variables with these very credentials, so that cdk cannot find others.

    They go to cdk's process only, never into a file.
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
    """Tell what will be done, and ask. Raises `InvalidUsage` for a no, or without a terminal."""
    tell(what)
    if yes:
        return
    ask_to_agree(
        question,
        unasked="there is no terminal to ask on: give --yes to agree",
        declined="declined: nothing was done",
    )


def tell(text: str) -> None:
    """Print a line on stderr, in the name of ddbload."""
    print_stderr(f"ddbload: {text}")
