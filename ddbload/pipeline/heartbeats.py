"""Processes that heartbeats name: whether they exist on this machine."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from ddbload.contracts.results import Heartbeat


def is_gone(heartbeat: Heartbeat) -> bool:
    """Tell whether a heartbeat's process is known not to exist; only on its own machine."""
    if (heartbeat.host, heartbeat.boot) != machine():
        return False
    try:
        os.kill(heartbeat.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        # It exists and belongs to another user.
        return False
    return False


def is_another(heartbeat: Heartbeat) -> bool:
    """Tell whether another process than this one wrote a heartbeat.

    The process id alone does not tell: a restarted container may get the same one.
    """
    return (*machine(), os.getpid()) != (heartbeat.host, heartbeat.boot, heartbeat.pid)


@cache
def machine() -> tuple[str, str]:
    """Return the host name, and the boot and namespace that process ids belong to."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not the path of a file
    except OSError:
        return os.uname().nodename, ""
    return os.uname().nodename, f"{boot} {space}"
