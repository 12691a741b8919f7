"""AWS on this machine: an emulation that an unmodified `cdk deploy` deploys to.

S3, CloudFormation, IAM, EventBridge, Step Functions, Lambda's API and the rest are moto's; what
moto leaves out is added here: functions run as processes of their own, state machines and
upload events are really executed, DynamoDB is dynalite. README.md says how faithfully.

`python -m localaws` starts it; `LocalAws` does the same from Python.
"""

from localaws.launcher import LocalAws, LocalAwsFailed

__all__ = ["LocalAws", "LocalAwsFailed"]
