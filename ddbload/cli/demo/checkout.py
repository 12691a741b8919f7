"""What the whole demo runs besides ddbload itself: the checkout, and what `make setup` installs."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from ddbload.errors import DemoUnavailable

ROOT = Path(__file__).resolve().parents[3]
"""The checkout, where ddbload is installed from one (editable, as `make setup` does)."""
CDK = ROOT / "node_modules" / ".bin" / "cdk"


def check_checkout() -> None:
    """See that everything is there before anything is started. Raises `DemoUnavailable`."""
    parts = ("app.py", "cdk.json", "infra", "lambdas", "localaws", "statemachine")
    if not all((ROOT / part).exists() for part in parts):
        raise DemoUnavailable(
            "the whole demo deploys ddbload's checkout, which is not here: get it from where"
            " ddbload came from and run 'make demo' in it; or try `ddbload demo --import-only`"
        )
    if shutil.which("node") is None:
        raise DemoUnavailable("the demo needs Node.js 20 or later; install it and try again")
    if not CDK.exists():
        raise DemoUnavailable(f"{CDK} is not there; run 'make demo', or 'npm ci' first")
    for module in ("aws_cdk", "awslambdaric", "moto"):
        if find_spec(module) is None:
            raise DemoUnavailable(
                f"the Python module {module} is not installed here; run 'make demo', or 'make"
                " setup' first"
            )
