"""CDK app that synthesizes the deployment. Its knobs are cdk.json's context.

cdk.json puts .venv first on the PATH, so that `cdk` works from any shell after `make setup`.
Without .venv the first python3 is used, for example that of an active environment.
"""

from __future__ import annotations

import os
import sys

# Node 20 works, but jsii prints a banner of nine lines on it; it is started by the import below.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

try:
    from aws_cdk import App
except ModuleNotFoundError:
    sys.exit(
        f"{sys.executable} has no aws-cdk-lib: run `make setup`, which makes .venv, or install"
        " requirements.txt where `python3` is (cdk.json says which python is taken)"
    )

from infra.errors import DeploymentError
from infra.settings import Settings
from infra.stack import DdbloadStack


def build(app: App) -> DdbloadStack:
    """Make the stack that the app's context describes. Raises `DeploymentError`."""
    return DdbloadStack(app, Settings.from_context(app.node.get_all_context()))


def main() -> None:
    """Synthesize into the folder that `cdk` names, or cdk.out."""
    app = App(analytics_reporting=False)
    try:
        build(app)
    except DeploymentError as error:
        sys.exit(f"ddbload: {type(error).__name__}: {error}")
    app.synth()


if __name__ == "__main__":
    main()
