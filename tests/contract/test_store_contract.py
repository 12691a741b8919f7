"""Ledger stores: every store behaves the same, the one in memory included."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.errors import AccessDenied, LedgerDamaged, LedgerUnwritable, ServiceUnavailable
from ddbload.ledger.bucket_store import BucketStore
from ddbload.ledger.store import FolderStore, Store
from tests.contract.conftest import S3_SERVERS, s3_server
from tests.fakes.client import ServiceError, connection_closed, read_timeout
from tests.fakes.s3 import FakeS3
from tests.fakes.s3_faults import (
    Fault,
    ends_after,
    ends_silently_after,
    internal_error,
    resets_after,
    slow_down,
)
from tests.unit.steps.world import MemoryStore

NAME = "runs/r/chunks/00000/17.json"


def bucket_store(s3: Any, prefix: str = "work/ledger") -> BucketStore:
    s3.create_bucket(Bucket="bucket")
    return BucketStore(s3, "bucket", prefix, retry_policy=RetryPolicy(sleep=lambda _: None))


@pytest.fixture(params=["memory", "folder", *S3_SERVERS])
def store(request, tmp_path) -> Iterator[Store]:
    """Empty store."""
    match request.param:
        case "memory":
            yield MemoryStore()
        case "folder":
            yield FolderStore(tmp_path / "not" / "made" / "yet")
        case server:
            with s3_server(server, request) as client:
                yield bucket_store(client)


@pytest.mark.parametrize("data", [b"", b"{}", b"\0\xff\r\n", b"x" * 200_000])
def test_get_returns_what_was_put(store, data):
    store.put(NAME, data)
    assert store.get(NAME) == data


def test_put_replaces_content(store):
    store.put(NAME, b"a longer first content")
    store.put(NAME, b"b")
    assert store.get(NAME) == b"b"


def test_put_new_writes_once(store):
    assert store.put_new(NAME, b"first")
    assert not store.put_new(NAME, b"second")
    assert store.get(NAME) == b"first"


def test_put_new_does_not_replace_content(store):
    store.put(NAME, b"first")
    assert not store.put_new(NAME, b"second")
    assert store.get(NAME) == b"first"


def test_put_over_replaces_only_what_was_read(store):
    assert store.get_version(NAME) is None
    assert not store.put_over(NAME, b"a", "unknown")
    assert store.put_over(NAME, b"a", None)
    assert not store.put_over(NAME, b"b", None)
    first = store.get_version(NAME)
    assert first.data == b"a"
    assert store.put_over(NAME, b"b", first.version)
    assert not store.put_over(NAME, b"c", first.version)
    second = store.get_version(NAME)
    assert second.data == b"b"
    store.delete(NAME)
    assert not store.put_over(NAME, b"c", second.version)
    assert store.get(NAME) is None


def test_names_are_sorted_and_have_the_prefix(store):
    names = ["runs/r/b.json", "runs/r/a/2.json", "runs/r/a/10.json", "runs/rr/c.json", "other"]
    for name in names:
        store.put(name, b"x")
    assert store.names("runs/r/") == ["runs/r/a/10.json", "runs/r/a/2.json", "runs/r/b.json"]
    assert store.names("runs/r") == sorted(names[:4])
    assert store.names("runs/r/a/1") == ["runs/r/a/10.json"]
    assert store.names("") == sorted(names)
    assert store.names("runs/x/") == []


def test_folders_are_the_names_directly_below(store):
    assert store.folders("runs/") == []
    for name in ("runs/b/run.json", "runs/a/chunks/1.json", "runs/a/run.json", "runs/file"):
        store.put(name, b"x")
    assert store.folders("runs/") == ["a", "b"]


def test_ages_are_seconds_since_the_last_write(store):
    store.put("runs/r/progress/a", b"")
    store.put("runs/r/other", b"")
    ages = store.ages("runs/r/progress/")
    assert list(ages) == ["runs/r/progress/a"]
    # S3 tells times in whole seconds.
    assert 0.0 <= ages["runs/r/progress/a"] < 60.0
    assert store.ages("runs/s/") == {}


def test_delete_removes_a_name(store):
    store.put(NAME, b"x")
    store.put("runs/r/other", b"x")
    store.delete(NAME)
    store.delete(NAME)
    store.delete("runs/never/made")
    assert store.get(NAME) is None
    assert store.names("") == ["runs/r/other"]


def test_get_all_keeps_the_requested_order(store):
    names = [f"runs/r/{number}" for number in range(40)]
    for name in names[::2]:
        store.put(name, name.encode())
    expected = [name.encode() if name in names[::2] else None for name in names]
    assert list(store.get_all(names[::-1])) == expected[::-1]
    assert list(store.get_all([])) == []


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("store", ["folder", S3_SERVERS[0]], indirect=True)
def test_conditional_put_has_one_winner_among_many(store, over):
    count = 8
    for number in range(20):
        name, barrier = f"runs/r/{number}", threading.Barrier(count)
        wins: list[bytes] = []
        version = None
        if over:
            store.put(name, b"earlier")
            version = store.get_version(name).version

        def put(
            content: bytes,
            name: str,
            barrier: threading.Barrier,
            wins: list[bytes],
            version: str | None,
        ) -> None:
            barrier.wait()
            if store.put_over(name, content, version) if over else store.put_new(name, content):
                wins.append(content)

        threads = [
            threading.Thread(target=put, args=(b"%d" % each * 1000, name, barrier, wins, version))
            for each in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [store.get(name)] == wins


def _count(root: str, times: int) -> None:
    """Add to a number in a folder, by reading and writing over what was read."""
    store = FolderStore(Path(root))
    for _ in range(times):
        while True:
            found = store.get_version(NAME)
            number = 0 if found is None else int(found.data)
            if store.put_over(NAME, b"%d" % (number + 1), None if found is None else found.version):
                break


def test_changes_by_processes_of_a_folder_are_all_kept(tmp_path):
    processes = [
        multiprocessing.get_context("spawn").Process(target=_count, args=(str(tmp_path), 25))
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert FolderStore(tmp_path).get(NAME) == b"75"


# A folder.


@pytest.fixture
def folder(tmp_path) -> FolderStore:
    return FolderStore(tmp_path / "ledger")


def test_reader_sees_old_or_new_content(folder):
    contents = [b"a" * 300_000, b"b" * 300_000]
    folder.put(NAME, contents[0])
    done = threading.Event()

    def write() -> None:
        for number in range(60):
            folder.put(NAME, contents[number % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not done.is_set():
            assert folder.get(NAME) in contents
            assert folder.names("") == [NAME]
    finally:
        writer.join()


@pytest.mark.parametrize("new", [True, False])
def test_name_appears_with_its_whole_content(folder, monkeypatch, new):
    seen = []

    def look(real: Callable[..., Any]) -> Callable[..., Any]:
        def looking(*args: Any) -> Any:
            seen.append((folder.get(NAME), folder.names("")))
            return real(*args)

        return looking

    monkeypatch.setattr(os, "link", look(os.link))
    monkeypatch.setattr(Path, "replace", look(Path.replace))
    (folder.put_new if new else folder.put)(NAME, b"whole")
    assert seen == [(None, [])]
    assert folder.get(NAME) == b"whole"


@pytest.mark.parametrize("new", [True, False])
def test_full_disk_is_reported_and_leaves_no_file(folder, tmp_path, monkeypatch, new):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Full:
        def __init__(self, file: Any) -> None:
            self._file, self.name = file, file.name

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def write(self, data: bytes) -> None:
            self._file.write(data[:3])
            raise full

    make = tempfile.NamedTemporaryFile
    monkeypatch.setattr("tempfile.NamedTemporaryFile", lambda **how: Full(make(**how)))
    with pytest.raises(LedgerUnwritable, match=r"cannot be written at .*No space left.*make room"):
        (folder.put_new if new else folder.put)(NAME, b"content")
    assert folder.get(NAME) is None
    assert not [path for path in (tmp_path / "ledger").rglob("*") if path.is_file()]


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EPERM])
@pytest.mark.parametrize("call", ["mkdir", "link", "replace", "fsync"])
def test_failed_write_is_not_damage(folder, monkeypatch, call, code, new):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    if call == {True: "replace", False: "link"}[new]:
        pytest.skip("the other way of writing")
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(LedgerUnwritable, match=os.strerror(code)):
        (folder.put_new if new else folder.put)(NAME, b"content")


@pytest.mark.parametrize("new", [True, False])
def test_folder_store_survives_a_loss_of_power(folder, tmp_path, monkeypatch, new):
    """Content is synced before the file gets its name, then the name and its folders are."""
    events: list[tuple[str, str]] = []
    sync = os.fsync

    def synced(descriptor: int) -> None:
        events.append(("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        sync(descriptor)

    def named(call: Any) -> Any:
        def give(source: Any, to: Any) -> None:
            call(source, to)
            events.append(("name", str(to)))

        return give

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", named(os.link))
    monkeypatch.setattr(os, "replace", named(os.replace))
    (folder.put_new if new else folder.put)(NAME, b"content")
    target = tmp_path / "ledger" / NAME
    given = events.index(("name", str(target)))
    before = [name for kind, name in events[:given] if kind == "sync"]
    assert [name for name in before if Path(name).name.startswith(".")]
    # Each new folder's name stands in the one above.
    above = target.parent.parent
    while above != tmp_path.parent:
        assert str(above) in before
        above = above.parent
    assert ("sync", str(target.parent)) in events[given:]


def test_folder_in_place_of_a_file_is_reported(folder, tmp_path):
    (tmp_path / "ledger" / NAME).mkdir(parents=True)
    with pytest.raises(LedgerDamaged, match="17"):
        folder.get(NAME)
    with pytest.raises(LedgerDamaged, match="17"):
        folder.put(NAME, b"x")
    assert not folder.put_new(NAME, b"x")


def test_file_in_place_of_a_folder_is_reported(tmp_path):
    (tmp_path / "ledger").write_text("not a folder")
    store = FolderStore(tmp_path / "ledger")
    assert store.get(NAME) is None
    assert store.names("") == []
    for put in (store.put, store.put_new):
        with pytest.raises(LedgerDamaged, match="17"):
            put(NAME, b"x")


# A bucket.


@pytest.fixture
def s3() -> FakeS3:
    return FakeS3()


@pytest.mark.parametrize(
    ("prefix", "key"),
    [("", "runs/r"), ("/", "runs/r"), ("work", "work/runs/r"), ("/a/b/", "a/b/runs/r")],
)
def test_bucket_store_writes_under_its_prefix(s3, prefix, key):
    store = bucket_store(s3, prefix)
    store.put("runs/r", b"x")
    assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == b"x"
    assert store.names("") == ["runs/r"]
    assert store.uri("runs/r") == f"s3://bucket/{key}"


@pytest.mark.parametrize("store", S3_SERVERS[:1], indirect=True)
def test_bucket_store_reads_all_pages_of_names(store):
    names = sorted(f"chunks/{number}" for number in range(2001))
    for name in names:
        store.put(name, b"")
    assert store.names("chunks/") == names


@pytest.mark.parametrize(
    "fault", [ends_after(3), ends_after(0), ends_silently_after(3), resets_after(2), slow_down()]
)
def test_bucket_store_repeats_a_broken_read(s3, fault):
    store = bucket_store(s3)
    store.put(NAME, b"content")
    s3.faults.add("get_object", fault, times=2)
    assert store.get(NAME) == b"content"
    assert not s3.faults.left()


@pytest.mark.parametrize("lost", [read_timeout(), connection_closed()])
@pytest.mark.parametrize("landed", [True, False])
def test_bucket_store_recognises_its_write_after_a_lost_response(s3, lost, landed):
    store = bucket_store(s3)
    s3.faults.add("put_object", Fault(raises=lost, landed=landed))
    assert store.put_new(NAME, b"mine")
    assert store.get(NAME) == b"mine"
    s3.faults.add("put_object", Fault(raises=lost, landed=landed))
    assert store.put_over(NAME, b"newer", store.get_version(NAME).version)
    assert store.get(NAME) == b"newer"


def test_bucket_store_does_not_claim_anothers_write_after_a_lost_response(s3):
    store = bucket_store(s3)
    other = bucket_store(s3)
    s3.faults.add(
        "put_object", Fault(before=lambda: other.put_new(NAME, b"theirs"), raises=read_timeout())
    )
    assert not store.put_new(NAME, b"mine")
    assert store.get(NAME) == b"theirs"


def test_bucket_store_repeats_after_a_write_conflict(s3):
    store = bucket_store(s3)
    conflict = ServiceError("ConditionalRequestConflict", 409, "try again")
    s3.faults.add("put_object", Fault(raises=conflict))
    assert store.put_new(NAME, b"mine")


@pytest.mark.parametrize(
    ("operation", "act"),
    [
        ("get_object", lambda store: store.get(NAME)),
        ("put_object", lambda store: store.put(NAME, b"x")),
        ("put_object", lambda store: store.put_new(NAME, b"x")),
        ("list_objects_v2", lambda store: store.names("")),
    ],
)
def test_bucket_store_reports_a_permanent_failure(s3, operation, act):
    store = bucket_store(s3)
    s3.faults.add(operation, internal_error(), times=20)
    with pytest.raises(ServiceUnavailable, match="InternalError"):
        act(store)
    denied = ServiceError("AccessDenied", 403, "Access Denied")
    s3.faults = type(s3.faults)()
    s3.faults.add(operation, Fault(raises=denied))
    with pytest.raises(AccessDenied, match=r"s3://bucket/work/ledger"):
        act(store)


@pytest.mark.parametrize("linked", ["runs", "runs/r", "runs/r/chunks", "runs/r/chunks/1.json"])
def test_symbolic_links_in_a_ledger_are_refused(tmp_path, linked):
    """In a folder that others may write to, a link could lead to somebody's files."""
    root, elsewhere = tmp_path / "ledger", tmp_path / "elsewhere"
    name = "runs/r/chunks/1.json"
    (elsewhere / name).parent.mkdir(parents=True)
    (elsewhere / name).write_bytes(b"secret")
    (root / linked).parent.mkdir(parents=True)
    (root / linked).symlink_to(elsewhere / linked)
    store = FolderStore(root)
    for act in (
        lambda: store.get(name),
        lambda: store.put(name, b"x"),
        lambda: store.put_new(name, b"x"),
        lambda: store.delete(name),
        *([] if linked == name else [lambda: store.names("runs/r/chunks/")]),
        *([] if linked == name else [lambda: store.ages("runs/r/chunks/")]),
        *([lambda: store.folders("runs/")] if linked == "runs" else []),
    ):
        with pytest.raises(LedgerDamaged, match="this is a symbolic link"):
            act()
    assert (elsewhere / name).read_bytes() == b"secret"
    assert [path.name for path in elsewhere.rglob("*.json")] == ["1.json"]


def test_fifo_in_a_ledger_is_not_waited_for(tmp_path):
    (tmp_path / "runs").mkdir()
    os.mkfifo(tmp_path / "runs" / "run.json")
    with pytest.raises(LedgerDamaged, match="not a regular file"):
        FolderStore(tmp_path).get("runs/run.json")


def test_huge_object_in_a_ledger_is_not_read(s3, monkeypatch):
    monkeypatch.setattr("ddbload.ledger.store.MAX_OBJECT_BYTES", 3)
    store = bucket_store(s3)
    store.put("small", b"123")
    store.put("large", b"1234")
    assert store.get("small") == b"123"
    with pytest.raises(LedgerDamaged, match="large: this has 4 bytes"):
        store.get("large")


def test_ledger_is_for_its_owner_alone(tmp_path):
    """Rejects quote rows."""
    old = os.umask(0)
    try:
        FolderStore(tmp_path / "led").put("runs/r/rejects/0.jsonl", b"row data")
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "led").rglob("*")}
    assert modes == {0o600, 0o700}
    assert stat.S_IMODE((tmp_path / "led").stat().st_mode) == 0o700
