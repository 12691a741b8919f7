"""The app of docs/construct.md, synthesized with the wheel, and with cdk-nag.

`python page_app.py FILE FOLDER`, with the installed wheel on PYTHONPATH. This file imports nothing
of the checkout.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

import aws_cdk
import cdk_nag

_App = aws_cdk.App


def make_app() -> Any:
    app = _App(
        outdir=sys.argv[2], analytics_reporting=False, builtin_cloud_formation_validation=False
    )
    packs = (cdk_nag.AwsSolutionsChecks(app), cdk_nag.ServerlessChecks(app))
    aws_cdk.Validations.of(app).add_plugins(*packs)
    return app


if __name__ == "__main__":
    aws_cdk.App = make_app  # type: ignore[assignment, misc]
    # Findings come as an exception, when all is written.
    try:
        runpy.run_path(sys.argv[1], run_name="__main__")
    except RuntimeError as error:
        if "ValidationFailed" not in str(error):
            raise
    import ddbload_cdk

    print(ddbload_cdk.__file__)
