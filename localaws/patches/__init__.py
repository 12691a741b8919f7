"""What moto leaves out or does differently from AWS, mended: one module for each service.

Each patch replaces a function of one known release of moto, so that release is required: in
another one the same patch might silently do nothing, or harm.
"""

from __future__ import annotations

from importlib.metadata import version

from localaws.functions.invoking import Invoker
from localaws.patches import (
    buckets,
    cloudformation,
    custom_resources,
    events,
    functions,
    item_reader,
    log_groups,
    machines,
    map_runs,
    paths,
    result_writer,
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
    log_groups.apply()
    events.apply(invoker)
    machines.apply(endpoint)
    paths.apply()
    states.apply()
    tasks.apply(invoker)
    item_reader.apply()
    map_runs.apply()
    result_writer.apply()
