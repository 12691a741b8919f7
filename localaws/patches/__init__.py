"""Patch moto where it differs from AWS, with one module per service.

Each patch replaces a function of one specific release of moto, so that release is required. With
another release the same patch might have no effect, or break something, without any error.
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
    logs,
    machines,
    map_runs,
    map_storage,
    queues,
    states,
    tasks,
)

MOTO = "5.2.5"


class WrongMoto(Exception):
    """Raised for an installed release of moto other than the patched one."""


def apply(invoker: Invoker, endpoint: str, state_retry_seconds: float) -> None:
    """Patch moto in this process, once. Raises WrongMoto.

    `endpoint`: address at which moto will be served. `state_retry_seconds`: maximum wait before a
    failed state is retried.
    """
    installed = version("moto")
    if installed != MOTO:
        raise WrongMoto(
            f"moto {MOTO} is needed, {installed} is installed: pip install moto=={MOTO}"
        )
    functions.apply(invoker)
    logs.apply()
    cloudformation.apply(endpoint)
    custom_resources.apply(endpoint)
    buckets.apply()
    events.apply(invoker)
    queues.apply(invoker)
    machines.apply(endpoint)
    states.apply(state_retry_seconds)
    tasks.apply(invoker)
    map_runs.apply()
    map_storage.apply()
