"""A ledger that is deleted after its use."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddbload.ledger.ledger import Ledger
from ddbload.ledger.store import FolderStore


@contextmanager
def temporary_ledger() -> Iterator[Ledger]:
    """Make a ledger for a plan or a conversion, deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="ddbload-") as folder:
        yield Ledger(FolderStore(Path(folder)), "scratch")
