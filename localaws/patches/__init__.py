"""What moto leaves out or does differently from AWS, mended: one module for each service.

Each patch replaces a function of one known release of moto, so that release is required: in
another one the same patch might silently do nothing, or harm.
"""

from __future__ import annotations

from importlib.metadata import version

from localaws.functions.invoker import Invoker
from localaws.patches import (
    buckets,
    cloudformation,
    custom_resources,
    events,
    functions,
    machines,
    map_runs,
    map_storage,
    states,
    tasks,
)

MOTO = "5.2.5"


class WrongMoto(Exception):
    """Another release of moto is installed than the one that is patched here."""


def apply(invoker: Invoker, endpoint: str) -> None:
    """Patch moto in this process, once. `endpoint`: where it will serve. Raises WrongMoto."""
    installed = version("moto")
    if installed != MOTO:
        raise WrongMoto(
            f"moto {MOTO} is needed, {installed} is installed: pip install moto=={MOTO}"
        )
    functions.apply(invoker)
    cloudformation.apply(endpoint)
    custom_resources.apply(endpoint)
    buckets.apply()
    events.apply(invoker)
    machines.apply(endpoint)
    states.apply()
    tasks.apply(invoker)
    map_runs.apply()
    map_storage.apply()
