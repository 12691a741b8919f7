"""From a wheel alone, in an empty folder: install, doctor, deploy, upload, report, destroy.

And the zip application, which imports with several processes. Both need PyPI and npm's registry.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from localaws import LocalAws
from tests.cli.console import ROOT
from tests.cli.transcript import items, make_table
from tests.e2e.processes import until

SECRET = "secret-that-is-in-no-file"
BOOKS = "isbn,title,year\n0439023483,The Hunger Games,2008\n,No ISBN,2001\n"


class Newcomer:
    """Somebody with an empty home folder, who knows nothing of the checkout."""

    def __init__(self, folder: Path, aws: LocalAws) -> None:
        self.aws = aws
        self.home, self.work = folder / "home", folder / "work"
        for each in (self.home, self.work):
            each.mkdir()
        kept = ("PATH", "LANG", "PIP_CERT", "PIP_FIND_LINKS", "PIP_INDEX_URL", "SSL_CERT_FILE")
        self.environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            **{name: v for name, v in os.environ.items() if name.startswith("npm_config_")},
            **aws.environment,
            "HOME": str(self.home),
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def run(self, *words: object, code: int = 0) -> str:
        ended = subprocess.run(
            [str(word) for word in words],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, f"{words}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def client(self, service: str):
        endpoint = self.aws.dynamodb_endpoint if service == "dynamodb" else self.aws.endpoint
        return boto3.client(
            service,
            endpoint_url=endpoint,
            region_name=self.aws.region,
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    with LocalAws() as aws:
        yield Newcomer(tmp_path_factory.mktemp("alone"), aws)


def install(newcomer):
    """Install the wheel as pipx does: into an environment that has nothing else."""
    venv, dist = newcomer.home / "venv", newcomer.home / "dist"
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(ROOT))
    subprocess.run([sys.executable, *build], check=True, capture_output=True)
    newcomer.run(sys.executable, "-m", "venv", venv)
    newcomer.run(venv / "bin" / "pip", "install", "--quiet", *dist.glob("*.whl"))
    return venv / "bin" / "ddbload"


def test_wheel_deploys_loads_and_removes(newcomer):
    ddbload = install(newcomer)
    make_table(newcomer.client("dynamodb"), "books", "isbn:S")
    checks = json.loads(newcomer.run(ddbload, "doctor", "books", "--json"))["checks"]
    assert {each["check"]: each["status"] for each in checks}["table"] == "ok"

    deploy = (ddbload, "deploy", "--stack", "alone")
    newcomer.run(*deploy, "--table", "books", code=2)
    made = json.loads(
        newcomer.run(*deploy, "--table", "books", "--upload", "in/=books", "--yes", "--json")
    )
    tools = newcomer.home / ".cache" / "ddbload" / "tools"
    assert tools.stat().st_mode & 0o777 == 0o700
    newcomer.run("grep", "-rqF", SECRET, newcomer.home, newcomer.work, code=1)

    later = json.loads(newcomer.run(*deploy, "--table", "films", "--yes", "--json"))
    assert later["settings"] == {**made["settings"], "tables": ["books", "films"]}
    assert later["inbox_bucket"] == made["inbox_bucket"]
    shown = newcomer.run(*deploy, "--set", "tables=books", "--dry-run")
    assert "- tables: films\n" in shown
    assert "table/films" in shown
    assert "nothing was changed" in shown

    s3 = newcomer.client("s3")
    s3.put_object(Bucket=made["inbox_bucket"], Key="in/books.csv", Body=BOOKS.encode())

    def runs():
        return newcomer.run(ddbload, "runs", "--stack", "alone")

    until(lambda: "SUCCEEDED_WITH_REJECTS" in runs(), "no run has ended", seconds=120)
    found = re.search(r"upload-[0-9a-f]{40}", runs())
    assert found is not None
    report = newcomer.run(ddbload, "report", found[0], "--stack", "alone", code=3)
    assert "2 read: 1 written, 1 rejected" in report
    (item,) = items(newcomer.client("dynamodb"), "books")
    assert item["title"] == {"S": "The Hunger Games"}

    newcomer.run(ddbload, "destroy", "--stack", "alone", code=2)
    removed = json.loads(newcomer.run(ddbload, "destroy", "--stack", "alone", "--yes", "--json"))
    assert removed["kept_buckets"] == sorted([made["inbox_bucket"], made["work_bucket"]])
    newcomer.run(ddbload, "destroy", "--stack", "alone", "--yes", code=1)
    s3.head_object(Bucket=made["inbox_bucket"], Key="in/books.csv")


def test_zip_application_imports_with_several_processes(newcomer):
    archive = newcomer.home / "ddbload.pyz"
    subprocess.run(
        [sys.executable, "-m", "release.build_zipapp", str(archive)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    dynamodb = newcomer.client("dynamodb")
    make_table(dynamodb, "zipped", "id:N")
    rows = "".join(f"{number}\n" for number in range(2000))
    (newcomer.work / "a.csv").write_text(f"id\n{rows}")
    words = ("import", "a.csv", "zipped", "--processes", "2", "--chunk-bytes", "1000", "--json")
    ended = json.loads(newcomer.run(sys.executable, archive, *words))
    assert ended["rows"]["written"] == 2000
    assert len(list(items(dynamodb, "zipped"))) == 2000
