"""The deployment as constructs of the AWS CDK, one a file; the wheel installs it as `ddbload_cdk`.

`ImportPipeline` is the construct for other apps. `app.py` is the app that `ddbload deploy` deploys,
and cdk.json has its knobs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .inputs import Network, Source, Upload
    from .pipeline import ImportPipeline

__all__ = ["DEFINITION", "ROOT", "ImportPipeline", "Network", "Source", "Upload"]

_HERE = Path(__file__).resolve().parent
_WHEEL_DATA = _HERE / "app"
ROOT = _WHEEL_DATA if _WHEEL_DATA.is_dir() else _HERE.parent
"""Folder of app.py, of the handlers and of the state machine."""
DEFINITION = ROOT / "statemachine" / "import.asl.json"
"""The only definition of the state machine."""


def __getattr__(name: str) -> Any:
    """Import the construct when it is used: settings are also checked where CDK is missing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import inputs, pipeline  # noqa: PLC0415 - as above

    return getattr(pipeline if name == "ImportPipeline" else inputs, name)
