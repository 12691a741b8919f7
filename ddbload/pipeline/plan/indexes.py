"""What a secondary index holds of an item."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index, as DescribeTable tells of it."""

    name: str
    is_global: bool
    partition: tuple[str, ...]
    """The attributes that its partition key is made of."""
    sort: tuple[str, ...]
    projection: str
    """ALL, KEYS_ONLY or INCLUDE."""
    projected: frozenset[str] | None
    """The attributes that it holds; None: all of an item."""
    write_capacity: int | None = None
    """Provisioned write units a second, of its own."""
    read_capacity: int | None = None
    warm_writes: int | None = None
    """Write units a second that it takes at once."""
    most_writes: int | None = None
    """Write units a second that an on-demand index is limited to."""

    @property
    def keys(self) -> tuple[str, ...]:
        """All attributes of its key. An item that lacks one is not in it."""
        return (*self.partition, *self.sort)
