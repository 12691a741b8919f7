"""The CDK app without CDK's own validation of the template, which takes most of a synthesis.

The app of cdk.json is run with it by the demos of tests/e2e.
"""

from __future__ import annotations

from functools import partial

import app

app.App = partial(app.App, builtin_cloud_formation_validation=False)  # type: ignore[misc]

if __name__ == "__main__":
    app.main()
