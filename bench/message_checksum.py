"""Checksums of messages: one that does not depend on their order, and one of each group's order."""

from __future__ import annotations

from hashlib import blake2b

_MODULUS = 1 << 128


def digest_of(body: bytes) -> bytes:
    """Return the hash of a message's body."""
    return blake2b(body, digest_size=16).digest()


class MessageChecksum:
    """Checksum of the messages' bodies, and another of their order within each group.

    Whoever knows what should arrive adds it to one of these, and compares `counters` with those of
    the server.
    """

    def __init__(self) -> None:
        self._bodies = 0
        self._groups: dict[str, bytes] = {}

    def add(self, body: bytes, group: str | None = None) -> None:
        """Add a message."""
        digest = digest_of(body)
        self._bodies = (self._bodies + int.from_bytes(digest)) % _MODULUS
        if group is not None:
            last = self._groups.get(group, group.encode())
            self._groups[group] = blake2b(last + digest, digest_size=16).digest()

    def counters(self) -> dict[str, str]:
        """Return `checksum` of all bodies, and `order`, which changes with a group's order."""
        order = sum(int.from_bytes(last) for last in self._groups.values()) % _MODULUS
        return {"checksum": f"{self._bodies:032x}", "order": f"{order:032x}"}
