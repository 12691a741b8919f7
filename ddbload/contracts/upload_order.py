"""Order of the uploads to one key, by S3's sequencers, and which of them was loaded last."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Self

from ddbload.contracts.messages import Message

_SEQUENCER = re.compile("[0-9a-f]{1,64}", re.ASCII | re.IGNORECASE)


def is_sequencer(text: str | None) -> bool:
    """Tell whether a text is a sequencer, a hexadecimal number. Others give no order."""
    return text is not None and _SEQUENCER.fullmatch(text) is not None


def sequencer_rank(sequencer: str) -> str:
    """Return a text by which the sequencers of one key sort in the order of its uploads.

    AWS: "The sequencers can be of different lengths. So, to compare these values, first right pad
    the shorter value with zeros, and then do a lexicographical comparison." Leaving out the zeros
    at the right gives the same order, whatever the lengths.
    """
    return sequencer.lower().rstrip("0")


@dataclass(frozen=True, slots=True)
class UploadClaim(Message):
    """Uploaded version of a key that a run shall load."""

    sequencer: str
    run: str
    at: float
    """Seconds since the epoch at which the upload's event was received."""

    @property
    def rank(self) -> str:
        """Text that sorts the claims of one key."""
        return sequencer_rank(self.sequencer)


@dataclass(frozen=True, slots=True)
class UploadOrder(Message):
    """State of one key: `uploads/<hash of bucket and key>/<number>.json`."""

    bucket: str
    key: str
    loaded: UploadClaim | None = None
    """Newest upload whose run has begun to load; older ones never begin any more."""
    execution: str | None = None
    """ARN of the execution that loads it; None outside a state machine."""
    waiting: tuple[UploadClaim, ...] = ()
    """Newer uploads, whose runs have not begun to load."""

    def newer_than(self, claim: UploadClaim) -> UploadClaim | None:
        """Return the newest upload that was claimed, if it is newer."""
        claims = [*self.waiting, *([] if self.loaded is None else [self.loaded])]
        newest = max(claims, key=lambda each: each.rank, default=claim)
        return newest if newest.rank > claim.rank else None

    def begun_after(self, claim: UploadClaim) -> UploadClaim | None:
        """Return the upload that has begun to load, if it is newer."""
        loaded = self.loaded
        return loaded if loaded is not None and loaded.rank > claim.rank else None

    def has(self, run: str) -> bool:
        """Tell whether the upload of a run is loaded or waits."""
        claims = [*self.waiting, *([] if self.loaded is None else [self.loaded])]
        return any(each.run == run for each in claims)

    def with_claim(self, claim: UploadClaim) -> Self:
        """Add an upload that waits."""
        return replace(self, waiting=(*self.waiting, claim))

    def ahead_of(self, claim: UploadClaim) -> list[UploadClaim]:
        """Return the older uploads that wait, which load first."""
        return [each for each in self.waiting if each.rank < claim.rank and each.run != claim.run]

    def with_loaded(self, claim: UploadClaim, execution: str | None) -> Self:
        """Let an upload begin; older ones that wait are dropped."""
        waiting = [e for e in self.waiting if e.rank >= claim.rank and e.run != claim.run]
        return replace(self, loaded=claim, execution=execution, waiting=tuple(waiting))
