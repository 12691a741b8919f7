"""Every message that crosses an edge: between states, processes, and runs.

Each is a frozen dataclass with `to_json` and a strict `from_json` (unknown fields are
`InvalidPayload`). Field names are whole words and changes are additive, because executions
in flight span deployments. Byte offsets are absolute in the source, lines count from 1.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, ClassVar, Self, cast

from ddbload.contracts.json_reader import JsonObjectReader


class Message:
    """What all messages share. They are plain data: JSON of the same shape, and back."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The message as JSON."""
        return asdict(cast("Any", self))


class IntMessage(Message):
    """A message whose fields are whole numbers: offsets, numbers of chunks, lines from 1."""

    __slots__ = ()

    LATER: ClassVar[frozenset[str]] = frozenset()
    """Fields that messages of earlier versions lack, where they are 0."""
    NAME: ClassVar[str]
    """The message's name in errors where no path is given."""

    @classmethod
    def from_json(cls, value: object, path: str | None = None) -> Self:
        """Read it strictly."""
        with JsonObjectReader(value, cls.NAME if path is None else path) as f:
            names = [each.name for each in fields(cast("Any", cls))]
            absent = {name: 0 if name in cls.LATER else None for name in names}
            return cls(*(f.whole(name, absent[name], least=int("line" in name)) for name in names))
