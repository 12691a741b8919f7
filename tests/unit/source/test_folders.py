from __future__ import annotations

import os

import pytest

from ddbload.errors import SourceNotFound, SourceUnreadable
from ddbload.source.catalogs.globs import FolderFiles, find_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in/b.csv", "in/a.csv", "in/a/z.csv", "in/a/deep/x.tsv", "in/é.csv", "in/Z.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n")
    (tmp_path / "in/empty.csv").touch()
    (tmp_path / "in/.hidden.csv").write_text("a\n")
    (tmp_path / "in/.git").mkdir()
    (tmp_path / "in/.git/config.csv").write_text("a\n")
    return tmp_path


ALL = ["Z.csv", "a.csv", "a/deep/x.tsv", "a/z.csv", "b.csv", "é.csv"]


@pytest.mark.parametrize("name", ["in", "in/", "./in", "in//"])
def test_folder_lists_all_files_by_name(folder, name):
    found = find_files(name)
    base = name.rstrip("/") + "/"
    assert found == FolderFiles([base + file for file in ALL], hidden=2, empty=[base + "empty.csv"])


def test_folder_order_is_s3_order(folder):
    # "a.csv" < "a/z.csv", because a dot is less than a slash: as keys, not as folders.
    assert find_files("in").files == sorted(find_files("in").files, key=str.encode)


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("in/*.csv", ["in/Z.csv", "in/a.csv", "in/b.csv", "in/é.csv"]),
        ("in/[ab].csv", ["in/a.csv", "in/b.csv"]),
        ("in/*/*.csv", ["in/a/z.csv"]),
        ("in/**/*.csv", ["in/Z.csv", "in/a.csv", "in/a/z.csv", "in/b.csv", "in/é.csv"]),
        ("**/x.*", ["in/a/deep/x.tsv"]),
        ("in/.h*", ["in/.hidden.csv"]),
        ("in/.git/*", ["in/.git/config.csv"]),
        ("in/.g*/*", ["in/.git/config.csv"]),
        ("*/a.csv", ["in/a.csv"]),
        ("./in/a*", ["./in/a.csv"]),
    ],
)
def test_pattern_returns_matching_files(folder, pattern, files):
    assert find_files(pattern).files == files


def test_file_with_a_wildcard_in_its_name_is_found(folder):
    (folder / "a[1].csv").write_text("a\n")
    (folder / "a1.csv").write_text("a\n")
    assert find_files("a[1].csv") is None


def test_folder_without_files_reports_what_was_left_out(folder):
    (folder / "out").mkdir()
    (folder / "out/.a").touch()
    (folder / "out/b").touch()
    with pytest.raises(SourceNotFound, match="1 empty, 1 hidden"):
        find_files("out")


def test_symbolic_link_loop_is_reported(folder):
    (folder / "in/a/up").symlink_to("..")
    with pytest.raises(SourceUnreadable, match="leads back"):
        find_files("in")


def test_unreadable_entries_are_reported(folder):
    (folder / "in/broken").symlink_to("nowhere")
    with pytest.raises(SourceUnreadable, match="in/broken"):
        find_files("in")
    (folder / "in/broken").unlink()
    os.mkfifo("in/pipe")
    with pytest.raises(SourceUnreadable, match="not a regular file"):
        find_files("in")


def test_links_to_folders_of_links_are_refused(tmp_path):
    # Two links in each folder to the next one: 2^25 paths lead to the last.
    for number in range(25):
        (tmp_path / f"d{number}").mkdir()
        for name in ("x", "y"):
            (tmp_path / f"d{number}/{name}").symlink_to(f"../d{number + 1}")
    (tmp_path / "d25").mkdir()
    (tmp_path / "d25/a.csv").write_text("a\n")
    with pytest.raises(SourceUnreadable, match="more than 16 paths"):
        find_files(str(tmp_path / "d0"))
    with pytest.raises(SourceUnreadable, match="more than 16 paths"):
        find_files(str(tmp_path / "d0/**/*.csv"))
