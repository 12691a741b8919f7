"""ddbload loads S3 objects and local files into DynamoDB tables, exact to the row.

`load`, `plan`, `verify`, `start`, `resume`, `status` and `rejects` are the command line's, for
Python; docs/python.md describes them. `__init__.pyi` has them for type checkers.
"""

from typing import Any

__version__ = "0.1.0"
_OF_THE_API = ("RunResult", "load", "plan", "rejects", "resume", "start", "status", "verify")


def __getattr__(name: str) -> Any:
    # Loaded at first use, so that the command line starts as fast as without it.
    if name not in (*_OF_THE_API, "errors"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    errors = import_module("ddbload.errors")
    return errors if name == "errors" else getattr(import_module("ddbload.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_OF_THE_API])
