"""Compare the calls that each role made with the policies of the synthesized template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from localaws.iam.policies import Policies
from localaws.iam.requests import Call, Place
from tests.e2e_stack.deployed import SOURCES, Stack
from tests.iam.deployed_template import Deployed, deployed, roles_of

MACHINE = "machine"
STEPS = ("preflight", "import_chunk", "report", "on_upload", "on_stopped")
ROLES = (*STEPS, MACHINE)


class Granted:
    """Roles go by the name of the step whose function has it, and `machine`."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        cloud = stack.cloud
        path = cloud.folder / "cdk" / f"{stack.name}.template.json"
        self._resources: Mapping[str, Any] = json.loads(path.read_text())["Resources"]
        pages = cloud.client("cloudformation").get_paginator("list_stack_resources")
        names = {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for page in pages.paginate(StackName=stack.name)
            for each in page["StackResourceSummaries"]
            # moto knows nothing of some types, which no policy names.
            if each.get("LogicalResourceId") and each.get("PhysicalResourceId")
        }
        self.place = Place(cloud.aws.region, cloud.aws.account)
        self._deployed: Deployed = deployed(
            {"Resources": self._resources}, names, self.place, stack.name
        )
        documents = roles_of({"Resources": self._resources}, self._deployed)
        logical = self._logical_roles()
        assert sorted(documents) == sorted(logical.values()), "a role that nobody looks at"
        self.documents = {role: documents[name] for role, name in logical.items()}
        self.policies = {role: Policies(of) for role, of in self.documents.items()}
        self.arns = {role: self._deployed.attribute(name, "Arn") for role, name in logical.items()}

    def _logical_roles(self) -> dict[str, str]:
        roles = {}
        for of in self._resources.values():
            properties = of.get("Properties", {})
            if of["Type"] == "AWS::Lambda::Function":
                step = re.fullmatch(r"lambdas\.(\w+)\.handler", properties["Handler"])
                assert step is not None
                roles[step[1]] = properties["Role"]["Fn::GetAtt"][0]
            elif of["Type"] == "AWS::StepFunctions::StateMachine":
                roles[MACHINE] = properties["RoleArn"]["Fn::GetAtt"][0]
        assert sorted(roles) == sorted(ROLES)
        return roles

    def arn(self, service: str, resource: str) -> str:
        return self.place.arn(service, resource)

    @property
    def queue(self) -> str:
        """The name of the queue of uploads."""
        return self.stack.outputs["UploadQueueUrl"].rpartition("/")[2]

    @property
    def dead_letters(self) -> str:
        """The name of the queue for uploads that could not start a run."""
        return self.stack.outputs["UploadDeadLetterQueueUrl"].rpartition("/")[2]

    def function(self, step: str) -> str:
        return self.arn("lambda", f"function:{self.stack.function(step)}")

    @cached_property
    def _kinds(self) -> list[tuple[str, str]]:
        """Patterns of resources, and what they are called in these tests."""
        stack = self.stack
        machine = stack.machine.rpartition(":")[2]
        folders = "attempts|chunks|failures|listing|manifest|parts|progress|rejects|seek"
        inner = rf"(runs/[^/]+/(?:{folders}))/.+"
        return [
            (re.escape(f"arn:aws:s3:::{stack.work}"), "work"),
            (re.escape(f"arn:aws:s3:::{stack.inbox}"), "inbox"),
            (re.escape(f"arn:aws:s3:::{SOURCES}"), "sources"),
            (r"^(inbox|sources)/.+", r"\1/*"),
            (f"^work/{inner}", r"work/\1/*"),
            (r"^work/runs/[^/]+/", "work/runs/*/"),
            (r"^work/mapruns.+", "work/mapruns/*"),
            (r"^work/(history|notices|once|started|uploads)/.+", r"work/\1/*"),
            (re.escape(self.arn("events", "event-bus/default")), "bus"),
            (re.escape(self.arn("dynamodb", "table/")) + ".+", "table"),
            *((re.escape(self.function(step)) + "$", f"function {step}") for step in STEPS),
            (re.escape(stack.machine) + "$", "machine"),
            (re.escape(self.arn("states", f"execution:{machine}")), "execution"),
            (r"^execution:.+", "execution:*"),
            (re.escape(self.arn("logs", f"log-group:/ddbload/{stack.name}/")), "log "),
            (r"^(log \w+):.+", r"\1"),
            (re.escape(self.arn("sqs", self.queue)), "queue"),
            (re.escape(self.arn("sqs", self.dead_letters)), "dead letters"),
            (re.escape(self.arn("sqs", "")) + ".*NoticeUndelivered.*", "undelivered"),
        ]

    def kind(self, resource: str) -> str:
        """A resource, or a pattern of resources, without the names that differ."""
        for pattern, name in self._kinds:
            resource = re.sub(pattern, name, resource, flags=re.DOTALL)
        return resource

    def statements(self, role: str) -> Iterator[tuple[str, str]]:
        """Each pair of an action and a pattern of resources that is allowed."""
        for document in self.documents[role].values():
            for statement in document["Statement"]:
                assert statement["Effect"] == "Allow"
                actions, resources = statement["Action"], statement["Resource"]
                for action in [actions] if isinstance(actions, str) else actions:
                    for resource in [resources] if isinstance(resources, str) else resources:
                        yield action, resource

    def granted(self, role: str) -> set[tuple[str, str]]:
        """Allowed actions by kind of resource."""
        return {(action, self.kind(resource)) for action, resource in self.statements(role)}

    def used(self, role: str, calls: Iterable[Call]) -> set[tuple[str, str]]:
        """That part of it which the calls need."""
        made = sorted({(call.action, call.resource) for call in calls})
        return {
            (action, self.kind(resource))
            for action, resource in self.statements(role)
            if any(
                done == action and _only(action, resource).allow(Call(done, on))
                for done, on in made
            )
        }


def _only(action: str, resource: str) -> Policies:
    statement = {"Effect": "Allow", "Action": action, "Resource": resource}
    return Policies({"one": {"Version": "2012-10-17", "Statement": [statement]}})
