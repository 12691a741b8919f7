"""A small file with the number of chunks of a large one."""

from __future__ import annotations

from tests.e2e_stack.conftest import CHUNKS


def test_run_imports_more_chunks_than_a_page_lists(many_chunks):
    ended = many_chunks.run.ended
    assert (ended.status, ended.error, ended.cause) == ("SUCCEEDED", None, None)
    many_chunks.table_is_right()
    assert ended.output["chunks"] == ended.output["chunks_done"] == CHUNKS
    assert ended.output["rows"]["read"] == ended.output["rows"]["written"] == CHUNKS
    assert len(many_chunks.run.names("chunks/")) == CHUNKS
