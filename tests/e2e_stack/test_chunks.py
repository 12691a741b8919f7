"""Files of all kinds through the state machine, in one chunk and in many: the table is the file."""

from __future__ import annotations

import pytest

from tests.e2e_stack.files import HEADER, MARKER, odd, plain
from tests.e2e_stack.runs import load

MANY = 1_000_000
FILES = {
    "one-chunk": (odd(1, 400), {"max_rejects": MANY}),
    "many-chunks": (odd(2, 400), {"max_rejects": MANY, "chunk_bytes": 600}),
    "a-row-a-chunk": (plain(30), {"chunk_bytes": 1, "workers": 30}),
    "one-after-the-other": (plain(30), {"chunk_bytes": 300, "workers": 1, "engine": "sync"}),
    "as-long-as-a-row-may-be": (
        f"{HEADER}{MARKER}-1,name,{'x' * 1000}\n".encode(),
        {"max_row_bytes": 1000 + len(f"{MARKER}-1,name,\n")},
    ),
    "header-only": (HEADER.encode(), {}),
    "header-without-line-end": (HEADER.encode().rstrip(), {}),
    "empty": (b"", {}),
    "nothing-but-a-mark": (b"\xef\xbb\xbf", {}),
    "nothing-but-line-ends": (b"\r\n\n\n", {}),
}


@pytest.fixture(scope="module")
def loads(stack, hasty_loads):
    """All under way at once; so are the longest runs of another module."""
    return {name: load(stack, data, run=name, **options) for name, (data, options) in FILES.items()}


@pytest.mark.parametrize("name", FILES)
def test_file_is_imported_in_chunks(loads, name):
    loads[name].succeeds()


def test_files_have_expected_rows(loads):
    """So that none of the above passes for want of rows, rejects or chunks."""
    assert loads["one-chunk"].run.ended.output["chunks"] == 1
    assert len(loads["one-chunk"].wanted.rejects) > 20
    assert loads["many-chunks"].run.ended.output["chunks"] > 10
    assert loads["a-row-a-chunk"].run.ended.output["chunks"] == 30
    assert loads["one-after-the-other"].run.ended.output["chunks"] > 3
    for name in ("header-only", "header-without-line-end", "empty"):
        ended = loads[name].succeeds()
        assert (ended.output["chunks"], ended.entered("ImportChunks")) == (0, 0)
