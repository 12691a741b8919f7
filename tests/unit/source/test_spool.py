from __future__ import annotations

import errno
import io
import os
import tempfile
import threading
from pathlib import Path

import pytest

from ddbload.errors import Cancelled, SourceChanged, SourceNotFound, SourceUnreadable
from ddbload.source import local_file
from ddbload.source.local_file import PIPE_PREFIX, open_local, spool_to_disk


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class Failing(io.BytesIO):
    """Stream that raises after its bytes."""

    def __init__(self, data: bytes, error: BaseException) -> None:
        super().__init__(data)
        self._error = error

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not data:
            raise self._error
        return data


def test_copy_ends_when_told_while_nothing_comes(folder, monkeypatch):
    """It went on until its input ended."""
    monkeypatch.setattr(local_file, "CHECK_SECONDS", 0.001)
    checks = iter([None, None, Cancelled("stop")])

    def check() -> None:
        error = next(checks)
        if error is not None:
            raise error

    ours, theirs = os.pipe()
    os.write(theirs, b"some")
    try:
        with open(ours, "rb") as stream, pytest.raises(Cancelled):  # noqa: PTH123
            spool_to_disk(stream, check)
    finally:
        os.close(theirs)
    assert list(folder.iterdir()) == []


def test_copy_of_a_pipe_has_all_its_bytes():
    data = bytes(range(256)) * 10_000
    ours, theirs = os.pipe()

    def write() -> None:
        with open(theirs, "wb") as end:  # noqa: PTH123
            end.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    with open(ours, "rb") as stream:  # noqa: PTH123
        path = spool_to_disk(stream)
    writer.join()
    assert Path(path).read_bytes() == data


@pytest.mark.parametrize(
    ("more", "name"), [({}, "standard input"), ({"prefix": PIPE_PREFIX}, "the pipe")]
)
def test_copy_is_named_after_what_it_is_a_copy_of(more, name):
    """Errors named the temporary file."""
    path = spool_to_disk(io.BytesIO(b"x"), **more)
    source = open_local(path)
    assert source.name == name
    assert source.pinned["path"] == path
    Path(path).write_bytes(b"more")
    with pytest.raises(SourceChanged, match=f"^{name} was changed"):
        list(source.stream(0, 1, 1))
    source.close()
    Path(path).unlink()
    with pytest.raises(SourceNotFound, match="temporary copy"):
        open_local(path)


def test_broken_stream_is_reported_and_leaves_no_file(folder):
    with pytest.raises(SourceUnreadable, match="standard input: Input/output error"):
        spool_to_disk(Failing(b"some", OSError(errno.EIO, os.strerror(errno.EIO))))
    assert list(folder.iterdir()) == []


def test_interrupted_spool_leaves_no_file(folder):
    with pytest.raises(KeyboardInterrupt):
        spool_to_disk(Failing(b"some", KeyboardInterrupt()))
    assert list(folder.iterdir()) == []


def test_endless_device_is_refused():
    """Its copy filled the disk."""
    with open("/dev/zero", "rb") as device, pytest.raises(SourceUnreadable, match="never end"):  # noqa: PTH123
        spool_to_disk(device)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        path = Path(spool_to_disk(nothing))
    assert path.read_bytes() == b""
    path.unlink()
