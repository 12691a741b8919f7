"""State that several runs change at once, without locks.

A state is the first object of a folder. Names are numbers that count down, and each is written
once: whoever writes the next number has seen the state before it. Of two changes at the same time
one fails, and is made again from what the other wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from ddbload.contracts.messages import Message
from ddbload.errors import InvalidPayload, LedgerDamaged, ServiceUnavailable
from ddbload.ledger.run_objects import encode_json
from ddbload.ledger.store import Store

S = TypeVar("S", bound=Message)
_FIRST_NUMBER = 10**9 - 1
_ATTEMPTS = 30


def read_state(store: Store, folder: str, kind: type[S], *, unless: str) -> S | None:
    """Return the state in a folder, whose name ends with a slash; None without one.

    Raises `LedgerDamaged`, for which `unless` is as in `change_state`, and errors of the store.
    """
    return _newest(store, folder, kind, unless)[1]


def change_state(
    store: Store,
    folder: str,
    kind: type[S],
    change: Callable[[S | None], S | None],
    *,
    unless: str,
    wait: Callable[[int], object] = lambda _: None,
) -> None:
    """Replace the state in a folder, whose name ends with a slash, by what `change` makes of it.

    `change` gets the state, None at first, and returns the new one, or None to leave it as it is.
    It is called again if another write came first. `unless`: words that tell when a damaged state
    must not be deleted. `wait` is called with the number of attempts before another one. Raises
    `LedgerDamaged`, `ServiceUnavailable` after too many attempts, what `change` raises, and errors
    of the store.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            wait(attempt)
        name, state = _newest(store, folder, kind, unless)
        number = _FIRST_NUMBER
        if name is not None:
            if state is None:
                continue
            number = int(name.rpartition("/")[2].removesuffix(".json")) - 1
        changed = change(state)
        if changed is None:
            return
        if store.put_new(f"{folder}{number:09d}.json", encode_json(changed.to_json())):
            return
    raise ServiceUnavailable(
        f"the state in {store.uri(folder)} was changed {_ATTEMPTS} times meanwhile; try again"
    )


def _newest(store: Store, folder: str, kind: type[S], unless: str) -> tuple[str | None, S | None]:
    """Return the name and the state that was written last; no state if it was deleted meanwhile."""
    for name in store.first_names(folder, 1):
        data = store.get(name)
        return name, None if data is None else _decode(data, kind, store.uri(name), unless)
    return None, None


def _decode(data: bytes, kind: type[S], uri: str, unless: str) -> S:
    try:
        return kind.from_json(json.loads(data))
    except (InvalidPayload, ValueError):
        raise LedgerDamaged(
            f"{uri} is not what this version of ddbload writes: it is damaged, or of a later"
            f" version; delete it, unless {unless}"
        ) from None
