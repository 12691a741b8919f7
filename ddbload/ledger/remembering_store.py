"""Store of one invocation, which reads nothing of its run twice."""

from __future__ import annotations

from collections.abc import Iterator

from ddbload.ledger.store import AgesPage, Store, VersionedObject

_SHARED = ("control.json", "execution.json", "attempts/")
"""Objects of a run that other processes write while it is worked on: these are always read."""


class RememberingStore(Store):
    """Store that answers from memory what one invocation has read or written of its own run.

    Its run is the first that it writes to. All else, such as the claims and the reports of other
    runs, is read anew, since an invocation may wait until they have changed it.

    If the invocation writes `run.json` first, it begins the run, and nothing else that follows
    the record exists yet: names below the run are answered from memory, too. That is what an
    earlier look would have shown. Every write keeps its condition, so a doubled invocation is
    noticed as ever, and a write that is refused makes the next read real.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # Folder of the run; empty until it is known.
        self._run = ""
        self._is_begun = False
        self._known: dict[str, bytes | None] = {}
        # Names whose last write was refused or failed: another may have written them.
        self._doubtful: set[str] = set()

    def get(self, name: str) -> bytes | None:
        """Read an object, from memory if it is known."""
        return self._known.get(name) if self._is_known(name) else super().get(name)

    def get_version(self, name: str) -> VersionedObject | None:
        """Read an object with its version, which only a missing one needs no request for."""
        if self._is_known(name) and self._known.get(name) is None:
            return None
        found = self._store.get_version(name)
        self._remember(name, None if found is None else found.data)
        return found

    def put(self, name: str, data: bytes) -> None:
        """Write or replace an object."""
        self._forget(name)
        self._store.put(name, data)
        self._remember(name, data)

    def put_over(self, name: str, data: bytes, version: str | None) -> bool:
        """Write an object unless it changed; a record that is new begins the run."""
        self._forget(name)
        if not self._store.put_over(name, data, version):
            return False
        self._remember(name, data)
        if version is None and name == f"{self._run}run.json":
            self._is_begun = True
        return True

    def pages(self, prefix: str, after: str = "") -> Iterator[AgesPage]:
        """List names, of a run that was begun here from memory."""
        if not (self._is_begun and self._is_own(prefix)):
            return self._store.pages(prefix, after)
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
        self._remember(name, None)

    def uri(self, name: str) -> str:
        """Return the URI of an object in the store."""
        return self._store.uri(name)

    def _forget(self, name: str) -> None:
        """Forget an object that is about to be written; its run is this invocation's."""
        folder, _, below = name.partition("/")
        if folder == "runs" and not self._run:
            self._run = f"runs/{below.partition('/')[0]}/"
        self._known.pop(name, None)
        self._doubtful.add(name)

    def _remember(self, name: str, data: bytes | None) -> None:
        if self._is_own(name):
            self._known[name] = data

    def _is_known(self, name: str) -> bool:
        is_absent = self._is_begun and name not in self._doubtful and self._is_own(name)
        return name in self._known or is_absent

    def _is_own(self, name: str) -> bool:
        """Return whether a name is of this invocation's run, and written by no other."""
        below = name.removeprefix(self._run)
        return below != name and not below.startswith(_SHARED)
