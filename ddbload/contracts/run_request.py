"""The request of a run, `request.json`: what was asked for, written before anything can fail."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ddbload.contracts.messages import Message
from ddbload.contracts.options import Options
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure


@dataclass(frozen=True, slots=True)
class RunRequest(Message):
    """`request.json`: the input of a run, before its source and table were looked at."""

    run: str
    payload: Payload
    """The payload as it was given: no format detected, no version pinned."""
    created: float
    """Seconds since the epoch."""
    folder: str | None = None
    """Working directory, which local paths of the source are relative to; None on AWS."""
    failure: Failure | None = None
    """Error that ended the run before it had a record."""

    def again(self, options: Mapping[str, Any]) -> Payload:
        """Make the payload that starts the run over, with options that replace those asked for."""
        payload = self.payload
        return replace(
            payload,
            run=self.run,
            source=payload.source.beside(self.join),
            options=Options.from_json({**payload.options.to_json(), **options}),
        )

    def join(self, path: str) -> str:
        """Return the absolute path of a local file that the source names."""
        return path if path == "-" else posixpath.join(self.folder or "", path)
