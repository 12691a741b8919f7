"""Settings of a stack: those it was deployed with, and the changes of a new deployment.

A stack's template records its settings, so that another deployment keeps those it does not change.
The app in `infra` checks them; this module knows only their names and defaults.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import call_with_retries
from ddbload.deploy.toolchain import app_folder, environment_without_aws
from ddbload.errors import DeploymentFailed, InvalidUsage, StackNotFound, did_you_mean
from ddbload.records import Record
from ddbload.runs.deployed import describe_stack

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

METADATA = "ddbload"
"""Key of the template's metadata that holds the version and the settings."""
_DESCRIPTION = "ddbload: "
"""Beginning of the description of every ddbload stack."""
_ABSENT = ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "DELETE_COMPLETE")
"""CloudFormation states of a stack without resources, which the next deployment creates."""


class DeployedStack(Record):
    """Stack as CloudFormation describes it, usable or not."""

    name: str
    status: str
    version: str | None
    """Version of ddbload that deployed the stack, if recorded."""
    settings: Mapping[str, Any] | None
    """Settings that differ from the defaults; None if not recorded."""


def find_deployed_stack(client: CloudFormationClient, name: str) -> DeployedStack | None:
    """Look up a stack; None if it does not exist or its first deployment was rolled back.

    Raises `StackNotFound` for a stack that does not belong to ddbload, and AWS's errors.
    """
    answer = describe_stack(client, name)
    if answer is None:
        return None
    found = answer["Stacks"][0]
    if not str(found.get("Description", "")).startswith(_DESCRIPTION):
        raise StackNotFound(
            f"stack {name} in {client.meta.region_name} is not a ddbload stack: give another name"
            " by --stack"
        )
    recorded: Any = {"settings": {}}
    if found["StackStatus"] not in _ABSENT:
        template: Any = call_with_retries(
            lambda: client.get_template(StackName=name)["TemplateBody"],
            f"reading the template of stack {name}",
        )
        template = json.loads(template) if isinstance(template, str) else template
        recorded = template.get("Metadata", {}).get(METADATA)
    return DeployedStack(
        name=name,
        status=found["StackStatus"],
        version=recorded.get("version") if recorded else None,
        settings=recorded.get("settings") if recorded else None,
    )


def first_failure(client: CloudFormationClient, name: str) -> str:
    """Return the reason of the first failed resource in the last operation on a stack."""
    events: Any = call_with_retries(
        lambda: client.describe_stack_events(StackName=name)["StackEvents"],
        f"reading the events of stack {name}",
    )
    reasons = [
        f"{each['LogicalResourceId']}: {each['ResourceStatusReason']}"
        for each in events
        if each["ResourceStatus"].endswith("_FAILED") and each.get("ResourceStatusReason")
    ]
    # Events are listed newest first. The stack's own failure event has no cause.
    own = f"{name}: "
    return next((each for each in reversed(reasons) if not each.startswith(own)), "no reason given")


def default_settings() -> dict[str, Any]:
    """Return the settings of the app with their defaults."""
    context = json.loads((app_folder() / "cdk.json").read_text("utf-8"))["context"]
    return {name: value for name, value in context.items() if name.isidentifier()}


def parse_assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Parse `KEY=VALUE` texts. A value is JSON or text; an empty one means the default.

    Raises `InvalidUsage`.
    """
    known = default_settings()
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise InvalidUsage(f"--set {text!r} is not of the form KEY=VALUE")
        if name == "stack_name":
            raise InvalidUsage("--set stack_name: give the stack's name by --stack")
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}"
            raise InvalidUsage(f"--set {name}: there is no such setting{hint}")
        if name in found:
            raise InvalidUsage(f"--set {name} is given twice: give it once")
        found[name] = known[name] if value == "" else _parse_value(name, value, known[name])
    return found


def _parse_value(name: str, text: str, default: Any) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if name == "uploads" and not isinstance(value, list):
        raise InvalidUsage(
            '--set uploads takes a JSON list like [{"prefix": "books/", "table": "books"}]; or'
            " give --upload books/=books"
        )
    if isinstance(default, list) and isinstance(value, str):
        return [each.strip() for each in value.split(",") if each.strip()]
    return value


def parse_upload(text: str) -> dict[str, Any]:
    """Parse `prefix=table` into an upload rule. Raises `InvalidUsage`."""
    prefix, equals, table = text.rpartition("=")
    if not equals or not table:
        raise InvalidUsage(f"--upload {text!r} is not of the form PREFIX=TABLE, like books/=books")
    return {"prefix": prefix, "table": table}


def merge_settings(
    recorded: Mapping[str, Any],
    *,
    tables: Sequence[str],
    source_buckets: Sequence[str],
    uploads: Sequence[Mapping[str, Any]],
    assigned: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the settings of the next deployment, without those that equal the defaults.

    Assigned settings replace recorded ones. Tables, buckets and rules are added to the recorded
    ones; a rule replaces a recorded one of the inbox with the same prefix. A rule's table becomes
    writable.
    """
    defaults = default_settings()
    merged: dict[str, Any] = {**defaults, **recorded, **assigned}
    named = [*tables, *(str(each["table"]) for each in uploads)]
    for name, more in (("tables", named), ("source_buckets", source_buckets)):
        merged[name] = list(merged[name])
        merged[name] += [each for each in dict.fromkeys(more) if each not in merged[name]]
    prefixes = {each["prefix"] for each in uploads}
    kept = [
        each
        for each in merged["uploads"]
        if each.get("bucket") is not None or each.get("prefix") not in prefixes
    ]
    merged["uploads"] = [*kept, *({each["prefix"]: dict(each) for each in uploads}.values())]
    return {name: value for name, value in merged.items() if value != defaults.get(name)}


def describe_changes(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """Return a line per setting, marked `+` or `-` if it changes.

    `before`: settings of the stack; None if nothing is deployed.
    """
    lines: list[str] = []
    for name, default in default_settings().items():
        old = [] if before is None else _texts(before.get(name, default))
        new = _texts(after.get(name, default))
        if new == _texts(default) and old in ([], new):
            continue
        lines += [f"- {name}: {each}" for each in old if each not in new]
        lines += [f"{' ' if each in old else '+'} {name}: {each}" for each in new]
    return lines


def _texts(value: Any) -> list[str]:
    """Return a setting as texts: one for each member of a list."""
    values = value if isinstance(value, list) else [value]
    return [v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]


_CHECK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from infra.errors import DeploymentError
from infra.settings import Settings
try:
    Settings.from_context(json.load(sys.stdin))
except DeploymentError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def check_app_settings(app: Path, settings: Mapping[str, Any]) -> None:
    """Check settings with the copied app, which needs none of its packages for that.

    Raises `DeploymentFailed` with the app's named error.
    """
    done = subprocess.run(  # noqa: S603 - the app of this installation
        [sys.executable, "-I", "-c", _CHECK, str(app)],
        input=json.dumps(settings),
        env=environment_without_aws(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["the app could not be started"]
        raise DeploymentFailed(f"the settings are refused: {said[-1]}")
