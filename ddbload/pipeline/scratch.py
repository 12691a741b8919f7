"""A ledger for what leaves none: a listing has to lie somewhere while a source is read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddbload.pipeline.ledger import Ledger
from ddbload.pipeline.store import FolderStore


@contextmanager
def scratch_ledger() -> Iterator[Ledger]:
    """A ledger in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="ddbload-") as folder:
        yield Ledger(FolderStore(Path(folder)), "scratch")
