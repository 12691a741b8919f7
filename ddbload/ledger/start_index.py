"""Index of the runs in a store by the time at which they began, newest first.

Run ids that ddbload generates sort by time, those of uploads and users do not, and a store may
have thousands. So each run that begins leaves an empty object `started/<milliseconds>-<run id>`,
whose number counts down: one listing finds the newest. Runs of versions without this index are
found by the listing of `runs/`; they come after the others, by the time in their id if it has one.
"""

from __future__ import annotations

import re

from ddbload.ledger.store import Store

_ROOT = "started/"
_LAST_MILLISECOND = 10**14 - 1
_GENERATED = re.compile(r"(\d{8}T\d{6}Z)-[0-9a-f]{6}", re.ASCII)


def put_start(store: Store, run: str, created: float) -> None:
    """Enter a run that begins. A run that is entered twice counts from the later time."""
    store.put(f"{_ROOT}{_LAST_MILLISECOND - int(created * 1000):014d}-{run}", b"")


def newest_runs(store: Store, most: int | None = None) -> list[str]:
    """List run ids, newest first; with `most`, in one request if the index has as many."""
    names = store.names(_ROOT) if most is None else store.first_names(_ROOT, most)
    known = dict.fromkeys(name.removeprefix(_ROOT).partition("-")[2] for name in names)
    if most is not None and len(names) >= most:
        return list(known)
    older = sorted((run for run in store.folders("runs/") if run not in known), key=_time_in_id)
    return [*known, *reversed(older)][:most]


def _time_in_id(run: str) -> tuple[str, str]:
    generated = _GENERATED.fullmatch(run)
    return ("" if generated is None else generated[1], run)
