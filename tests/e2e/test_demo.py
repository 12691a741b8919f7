"""`ddbload demo --import-only` verifies an import, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import urllib.request

import pytest

from tests.cli.console import PROGRAM, ROOT, Console
from tests.e2e.processes import alive, children, command_of, started, until

LISTENS = re.compile(r"DynamoDB \(dynalite\) listens on (http://127\.0\.0\.1:\d+)\n")


@pytest.fixture
def demo(console: Console) -> Console:
    """Set up a console with the checkout's Node modules and without AWS settings."""
    for name in [name for name in console.env if name.startswith("AWS_")]:
        del console.env[name]
    console.path("node_modules").symlink_to(ROOT / "node_modules")
    return console


def listens(endpoint):
    try:
        with urllib.request.urlopen(endpoint, timeout=2):
            return True
    except OSError:
        return False


def endpoint_in(out):
    found = LISTENS.search(out)
    assert found is not None
    return found[1]


def test_demo_imports_file_with_rejects(demo):
    rows = 'id,größe,name\n1,5,"a\nb"\n2,,b\nx,7,c\n3,1,"d"d\n2,9,\n,,\n4,"8",é\n'
    demo.write("meine Datei.csv", rows)
    ended = demo.ddbload(
        "demo", "--import-only", "--file", "meine Datei.csv", "--table-key", "id:N"
    )
    assert (ended.code, ended.err) == (3, "")
    assert "7 read: 3 written, 3 rejected, 1 superseded" in ended.out
    assert "  rejected  1 for not_a_number in id, first at line 5\n" in ended.out
    assert "  rejected  1 for bad_quote in name, first at line 6\n" in ended.out
    assert "  rejected  1 for empty_key in id, first at line 8\n" in ended.out
    assert ended.out.endswith(
        "verified by a scan: 3 items, one for each of the file's 3 keys, equal cell by cell\n"
    )
    assert not listens(endpoint_in(ended.out))


@pytest.mark.parametrize("which", [[], ["--import-only"]])
def test_demo_fails_when_node_is_missing(demo, tmp_path, which):
    ended = demo.ddbload("demo", *which, PATH=str(tmp_path))
    assert ended.code == 1
    assert ended.err.startswith("ddbload: ToolsUnavailable: there is no node on the PATH: install")


def test_kept_demo_runs_until_it_is_interrupted(demo):
    words = [PROGRAM, "demo", "--import-only", "--rows", "20", "--keep"]
    with started(demo, words) as running:
        until(lambda: "AWS_ENDPOINT_URL_DYNAMODB" in running.out.read_text("utf-8"), "not kept")
        (server,) = [pid for pid in children(running.pid) if "dynalite" in command_of(pid)]
        assert "verified by a scan: 20 items" in running.out.read_text("utf-8")
        running.kill(signal.SIGINT)
        running.process.wait()
        until(lambda: not alive(server), "the server is left")
        assert running.ended().code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_demo_stops_its_server_when_interrupted(demo, number):
    with started(demo, [PROGRAM, "demo", "--import-only", "--rows", "20000"]) as running:
        until(lambda: LISTENS.search(running.out.read_text("utf-8")), "no server was started")
        (server,) = [pid for pid in children(running.pid) if "dynalite" in command_of(pid)]
        endpoint = endpoint_in(running.out.read_text("utf-8"))
        running.kill(number)
        running.process.wait()
        until(lambda: not alive(server), "the server is left")
        assert running.ended().code == (130 if number != signal.SIGKILL else -number)
    assert not listens(endpoint)
    if number == signal.SIGKILL:
        # Nobody was there to remove it.
        for left in (demo.folder.parent / "tmp").iterdir():
            left.rename(demo.folder / left.name)
