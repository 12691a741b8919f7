"""Local AWS emulator to which an unmodified `cdk deploy` can deploy.

moto provides S3, CloudFormation, IAM, EventBridge, Step Functions, Lambda's API and other services.
This package adds the missing parts: Lambda functions run as processes, state machines execute,
uploads send events, and dynalite serves DynamoDB. README.md lists every difference from AWS.

Start it with `python -m localaws`, or from Python with `LocalAws`.
"""

from localaws.launcher import LocalAws, LocalAwsFailed

__all__ = ["LocalAws", "LocalAwsFailed"]
