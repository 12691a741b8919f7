"""The measurement of gzip's seek points compares readers of the same text."""

from __future__ import annotations

import gzip
import zlib

import pytest

from bench import gzip_workers
from bench.gzip_workers import bare_zlib, make_file, measure, read_chunks


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(gzip_workers, "DEFAULT_CHUNK_BYTES", 500_000)
    path = tmp_path / "rows.csv.gz"
    make_file(path, 3_000_000, seed=2)
    return path


def test_all_variants_read_the_file(file, capsys):
    text = gzip.decompress(file.read_bytes())
    assert bare_zlib(file) == (len(text), zlib.crc32(text))
    assert read_chunks(file, []) == bare_zlib(file)
    medians = measure(file, rounds=1)
    assert len(medians) == 4
    said = capsys.readouterr().out
    assert f"{len(text) / 1e6:.0f} MB" in said
    # Points are a megabyte apart.
    assert "3 chunks" in said


def test_variants_that_disagree_are_refused(file, monkeypatch):
    monkeypatch.setattr(gzip_workers, "read_chunks", lambda _path, _cuts: (0, 0))
    with pytest.raises(SystemExit, match="disagree"):
        measure(file, rounds=1)
