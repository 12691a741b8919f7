"""CloudWatch Logs: the ARN of a log group as CloudFormation gives it.

By the CloudFormation User Guide, "AWS::Logs::LogGroup", it ends in `:*`, so that policies which
name it cover the group's streams. moto leaves that off.
"""

from __future__ import annotations

from moto.logs.models import LogGroup

from localaws.patches.patching import original, replace


def apply() -> None:
    """Let Fn::GetAtt give what it gives on AWS."""
    attribute_of = original(LogGroup, "get_cfn_attribute")

    def get_cfn_attribute(self: LogGroup, attribute_name: str) -> str:
        value: str = attribute_of(self, attribute_name)
        return f"{value}:*" if attribute_name == "Arn" else value

    replace(LogGroup, "get_cfn_attribute", get_cfn_attribute)
