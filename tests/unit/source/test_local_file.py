from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from ddbload.errors import SourceChanged, SourceNotFound, SourceUnreadable
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


def test_name_is_the_given_path(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    file = open_local("a file.csv")
    assert file.name == "a file.csv"
    assert file.pinned["path"] == str(path)
    file.close()


def test_file_replaced_by_rename_stays_readable(path, file):
    other = path.with_name("other")
    other.write_bytes(DATA[::-1])
    os.utime(other, ns=(0, 10**9))
    other.replace(path)
    assert read(file) == DATA
    with pytest.raises(SourceChanged, match="inode"):
        open_local(str(path), file.pinned)


def test_removed_file_stays_readable(path, file):
    path.unlink()
    assert read(file) == DATA


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


def test_short_reads_are_continued(file, monkeypatch):
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: real(fd, min(count, 3), at))
    assert read(file) == DATA


def test_input_error_is_reported(file, monkeypatch):
    def fail(*_: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(SourceUnreadable, match=r"a file\.csv: Input/output error"):
        read(file)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("missing.csv", SourceNotFound, "no such file"),
        ("", SourceNotFound, "no such file"),
        ("nul\0byte", SourceUnreadable, "has a NUL character"),
        ("half\ud800pair", SourceUnreadable, r"file names here cannot have \(utf-8\)"),
        ("x" * 5000, SourceUnreadable, "too long"),
        ("a file.csv/inside", SourceUnreadable, "Not a directory"),
        (".", SourceUnreadable, "is a folder"),
    ],
)
def test_unopenable_path_is_reported(path, monkeypatch, name, error, words):
    monkeypatch.chdir(path.parent)
    with pytest.raises(error, match=words):
        open_local(name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_reported(path):
    path.chmod(0)
    with pytest.raises(SourceUnreadable, match="Permission denied"):
        open_local(str(path))


def test_failed_open_is_reported(path, monkeypatch):
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SourceUnreadable, match="Permission denied"):
        open_local(str(path))


@pytest.mark.timeout(20)
def test_pipe_is_refused_without_blocking(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(SourceUnreadable, match="is not a regular file"):
        open_local(str(pipe))


def test_device_is_refused():
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116
    with pytest.raises(SourceUnreadable, match="is not a regular file"):
        open_local(os.devnull)


@pytest.mark.parametrize("pinned", [None, {"size": 1}])
def test_refused_file_is_closed(path, monkeypatch, pinned):
    closed, real = [], os.close
    monkeypatch.setattr(os, "close", lambda fd: (closed.append(fd), real(fd)))
    refused = path.parent if pinned is None else path
    with pytest.raises((SourceUnreadable, SourceChanged)):
        open_local(str(refused), pinned)
    assert len(closed) == 1
