from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ddbload.errors import SourceChanged, SourceUnreadable
from ddbload.source.local_file import LocalFile, open_local

DATA = bytes(range(256)) * 4


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "a file.csv"
    path.write_bytes(DATA)
    os.utime(path, ns=(0, 10**9))
    return path


@pytest.fixture
def file(path):
    file = open_local(str(path))
    yield file
    file.close()


def read(file: LocalFile, start: int = 0, end: int = 1024, piece_bytes: int = 100) -> bytes:
    return b"".join(file.stream(start, end, piece_bytes))


def test_file_replaced_by_rename_stays_readable(path, file):
    other = path.with_name("other")
    other.write_bytes(DATA[::-1])
    os.utime(other, ns=(0, 10**9))
    other.replace(path)
    assert read(file) == DATA
    with pytest.raises(SourceChanged, match="inode"):
        open_local(str(path), file.pinned)


def test_truncated_file_is_changed(path, file):
    stream = file.stream(0, 1024, 100)
    assert next(stream) == DATA[:100]
    os.truncate(path, 50)
    os.utime(path, ns=(0, 10**9))
    with pytest.raises(SourceChanged, match="while it was being imported"):
        next(stream)


def test_file_with_another_mtime_is_changed(path, file):
    path.write_bytes(DATA[::-1])
    os.utime(path, ns=(0, 10**9 + 1))
    with pytest.raises(SourceChanged):
        read(file)
    with pytest.raises(SourceChanged, match="start a new run"):
        open_local(str(path), file.pinned)


def edit_in_place(path: Path, data: bytes) -> None:
    """Edit a file without a change of its size and mtime."""
    status = path.stat()
    while path.stat().st_ctime_ns == status.st_ctime_ns:
        # The kernel's clock has ticks of some milliseconds.
        with path.open("r+b") as file:
            file.write(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns


def test_edit_in_place_with_restored_mtime_is_noticed(path, file):
    stream = file.stream(0, len(DATA), 100)
    assert next(stream) == DATA[:100]
    edit_in_place(path, DATA[::-1])
    with pytest.raises(SourceChanged, match="while it was being imported"):
        next(stream)
    with pytest.raises(SourceChanged, match="start a new run"):
        open_local(str(path), file.pinned)


def test_hard_link_does_not_hide_an_edit(path, file):
    stream = file.stream(0, len(DATA), 100)
    assert next(stream) == DATA[:100]
    os.link(path, path.with_name("second"))
    assert next(stream) == DATA[100:200]
    edit_in_place(path, DATA[::-1])
    with pytest.raises(SourceChanged):
        next(stream)


def test_change_between_read_and_check_is_noticed(path, file, monkeypatch):
    real = os.pread

    def change_after(*args: int) -> bytes:
        data = real(*args)
        path.write_bytes(DATA + b"x")
        return data

    monkeypatch.setattr(os, "pread", change_after)
    with pytest.raises(SourceChanged):
        next(file.stream(0, 1024, 100))


def test_input_error_is_reported(file, monkeypatch):
    def fail(*_: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(SourceUnreadable, match=r"a file\.csv: Input/output error"):
        read(file)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_reported(path):
    path.chmod(0)
    with pytest.raises(SourceUnreadable, match="Permission denied"):
        open_local(str(path))


@pytest.mark.timeout(20)
def test_pipe_is_refused_without_blocking(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(SourceUnreadable, match="is not a regular file"):
        open_local(str(pipe))
