"""Store of one invocation, which reads nothing twice."""

from __future__ import annotations

from collections.abc import Iterator

from ddbload.ledger.store import PAGE_NAMES, AgesPage, Store, VersionedObject

_SHARED = ("control.json", "execution.json", "attempts/")
"""Objects of a run that other processes write while it is worked on: these are always read."""


class RememberingStore(Store):
    """Store that answers from memory what one invocation has read or written.

    If the invocation writes `run.json` first, it begins the run, and nothing else that follows
    the record exists yet: names below the run are answered from memory, too. That is what an
    earlier look would have shown. Every write keeps its condition, so a doubled invocation is
    noticed as ever, and a write that is refused makes the next read real.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, bytes | None] = {}
        # Names whose last write was refused or failed: another may have written them.
        self._doubtful: set[str] = set()
        self._begun: str | None = None

    def get(self, name: str) -> bytes | None:
        """Read an object, from memory if it is known."""
        return self._known.get(name) if self._is_known(name) else super().get(name)

    def get_version(self, name: str) -> VersionedObject | None:
        """Read an object with its version, which only a missing one needs no request for."""
        if self._is_known(name) and self._known.get(name) is None:
            return None
        found = self._store.get_version(name)
        self._known[name] = None if found is None else found.data
        return found

    def put(self, name: str, data: bytes) -> None:
        """Write or replace an object."""
        self._forget(name)
        self._store.put(name, data)
        self._known[name] = data

    def put_over(
        self, name: str, data: bytes, version: str | None, *, attempts: int | None = None
    ) -> bool:
        """Write an object unless it changed; a record that is new begins the run."""
        self._forget(name)
        if not self._store.put_over(name, data, version, attempts=attempts):
            return False
        self._known[name] = data
        if version is None and name.endswith("/run.json"):
            self._begun = name.removesuffix("run.json")
        return True

    def pages(self, prefix: str, after: str = "", *, most: int = PAGE_NAMES) -> Iterator[AgesPage]:
        """List names, of a run that was begun here from memory."""
        if self._begun is None or not self._follows(prefix):
            return self._store.pages(prefix, after, most=most)
        names = sorted(
            name
            for name, data in self._known.items()
            if name.startswith(prefix) and name > prefix + after and data is not None
        )
        return iter([AgesPage(dict.fromkeys(names, 0.0), more=False)])

    def folders(self, prefix: str) -> list[str]:
        """List the names directly below a prefix."""
        return self._store.folders(prefix)

    def delete(self, name: str) -> None:
        """Delete an object."""
        self._forget(name)
        self._store.delete(name)
        self._known[name] = None

    def uri(self, name: str) -> str:
        """Return the URI of an object in the store."""
        return self._store.uri(name)

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._doubtful.add(name)

    def _is_known(self, name: str) -> bool:
        if self._is_shared(name):
            return False
        is_absent = name not in self._doubtful and self._follows(name)
        return name in self._known or is_absent

    def _follows(self, name: str) -> bool:
        """Tell whether a name is of what follows the record of the run that began here."""
        return (
            self._begun is not None and name.startswith(self._begun) and not self._is_shared(name)
        )

    def _is_shared(self, name: str) -> bool:
        path = name.split("/", 2)
        return path[0] == "runs" and path[-1].startswith(_SHARED)
