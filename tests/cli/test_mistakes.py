"""Mistakes of new users: what is said names what was seen, and what helps."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ddbload
from ddbload.aws.clients import Clients
from ddbload.cli.commands import commands, run
from ddbload.errors import AwsConfiguration
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.dynamodb_tables import keyed
from tests.fakes.s3 import FakeS3

USAGE, FAILED, REJECTS = 2, 1, 3


def _archive(name: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(name, "isbn,name\n1,a\n")
    return made.getvalue()


FILES: dict[str, bytes] = {
    "books.csv": b"isbn,name,year\n1,one,1999\n2,two,2000\n",
    "isbn13.csv": b"isbn13,name\n1,one\n",
    "upper.csv": b"ISBN,name\n1,one\n",
    "semicolons.csv": b"isbn;name;year\n1;one;1999\n",
    "headless.csv": b"1,one\n2,two\n",
    "latin.csv": b"isbn,name\n1,caf\xe9\n",
    "latin-header.csv": b"isbn,pr\xe9nom\n1,a\n",
    "books.xml": b'<?xml version="1.0"?>\n<books/>\n',
    "books.html": b"<!DOCTYPE html>\n<html><body>log in</body></html>\n",
    "books.db": b"SQLite format 3\0aaaaaaaaaaaa",
    "books.pdf": b"%PDF-1.4\n%aaaa",
    "books.xlsx": _archive("[Content_Types].xml"),
    "letters.zip": _archive("letters.zip"),
    "cut.zip": _archive("books.csv")[:-9],
    "mac.zip": _archive("__MACOSX/books.csv"),
    "archive": _archive("books.csv"),
    "books.avro": b"Obj\x01\x04\x16avro.schema",
    "books.orc": b"ORC\n\x03\0\0aaaa",
    "books.7z": b"7z\xbc\xaf\x27\x1c\0\x04",
    "books.rtf": b"{\\rtf1\\ansi isbn,name}",
    "books.png": b"\x89PNG\r\n\x1a\n\0\0\0",
    "books.yaml": b"isbn: 1\nname: one\n---\nisbn: 2\n",
    "hive.txt": b"isbn\x01name\n1\x01a\n",
    "settings.ini": b"[section]\na=b\n",
    "answer.xml": b"<Error><Code>AccessDenied</Code></Error>",
    "noise.csv": b"\xe4\x01\x9f\x02abc,\x80\n\x05",
    "array.hdf": b"\x89HDF\r\n\x1a\n\0\0",
    "aligned.txt": b"isbn  name   year\n1     one    1999\n",
    "scalars.json": b"[1,2,3]",
    "other.jsonl": b'{"ISBN13": "1"}\n{"ISBN13": "2"}\n',
    "kanji.csv": b"isbn,name\n1,\x93\xfa\x96{\n",
    "dump.sql": b"INSERT INTO books VALUES (1,2);\n",
    "lines.jsonl": b'{"isbn": "1"}\n',
    "tags.csv": b'isbn,tags\n1,"a,b"\n',
    "letters.csv": b"isbn,ok\n1,X\n",
    "english.csv": b'isbn,n\n1,"1,234"\n',
    "german.csv": b"isbn;n\n1;1.234,5\n",
    "dollars.csv": b"isbn,n\n1,$5\n",
    "days.csv": b"isbn,day\n1,31/12/2020\n",
    "list.csv": b"isbn,l\n1,a b\n",
    "empty.csv": b"",
    "header.csv": b"isbn,name\n",
    "blank.csv": b"\n\n",
    "pointer.csv": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12345\n",
    "wrapped.json": b'{"books": [{"isbn": "1"}, {"isbn": "2"}]}\n',
}
S3 = "s3.amazonaws.com"
MISTAKES: list[tuple[str, int, tuple[str, ...]]] = [
    # The source's address.
    (f"import https://data.{S3}/in/a.csv books", USAGE, ("is a URL", "write s3://data/in/a.csv")),
    ("import https://data.s3.eu-west-1.amazonaws.com/a.csv books", USAGE, ("s3://data/a.csv",)),
    (
        "import https://s3.eu-west-1.amazonaws.com/data/in/a.csv books",
        USAGE,
        ("s3://data/in/a.csv",),
    ),
    (
        "import https://s3.console.aws.amazon.com/s3/object/data?prefix=in/a.csv books",
        USAGE,
        ("s3://data/in/a.csv",),
    ),
    (
        f"import https://data.{S3}/a%20b.csv?X-Amz-Signature=secret books",
        USAGE,
        ("'s3://data/a b.csv'",),
    ),
    (
        "plan https://example.com/books.csv books",
        USAGE,
        ("curl -fsSL URL | ddbload import - TABLE",),
    ),
    ("import file:///data/books.csv books", USAGE, ("write the path alone, /data/books.csv",)),
    ("import file://books.csv books", USAGE, ("write the path alone, books.csv",)),
    ("import S3://data/in/books.csv books", USAGE, ("write s3://data/in/books.csv",)),
    ("import s3:/data/in/books.csv books", USAGE, ("write s3://data/in/books.csv",)),
    ("import s3a://data/in/books.csv books", USAGE, ("write s3://data/in/books.csv",)),
    ("import gs://data/in/books.csv books", USAGE, ("not gs://", "copy the data to S3")),
    ("import arn:aws:s3:::data/in/books.csv books", USAGE, ("write s3://data/in/books.csv",)),
    ("import arn:aws:s3:us-east-1:123456789012:accesspoint/ap books", USAGE, ("alias",)),
    (
        "import arn:aws:dynamodb:us-east-1:123456789012:table/books books",
        USAGE,
        ("comes second", "books"),
    ),
    ("import s3://data books", USAGE, ("write s3://data/ for all objects",)),
    ("import s3://data/in books", FAILED, ("no such object", "s3://data/in/ names all of them")),
    ("import s3://data/in/book.csv books", FAILED, ("did you mean s3://data/in/books.csv?",)),
    ("import s3://date/in/books.csv books", FAILED, ("there is no bucket date",)),
    ("import s3://data//in/books.csv books", FAILED, ("begins with a slash",)),
    ("import boks.csv books", FAILED, ("boks.csv: no such file; did you mean 'books.csv'?",)),
    ("import nowhere/books.csv books", FAILED, ("there is no folder nowhere either",)),
    ("import ~/books.csv books", FAILED, ("the shell replaces ~ only outside quotes",)),
    (r"import C:\data\books.csv books", FAILED, ("a path of Windows",)),
    ("import '*.csv' books", FAILED, ("the quotes are part of the name",)),
    ("import *.tsv books", FAILED, ("*.tsv: no file to import",)),
    ("import folder books", FAILED, ("folder: no file to import; the folder is empty",)),
    ("import books.csv books --manifest", FAILED, ("leave out --manifest",)),
    ("books.csv books", USAGE, ("is no command: ddbload import SOURCE TABLE",)),
    (
        "import books.csv other boks",
        USAGE,
        ("other is neither a file nor the last argument", "ddbload run a job file with several"),
    ),
    ("convert pointer.csv -", FAILED, ("a pointer of Git LFS", "git lfs pull")),
    ("import wrapped.json books --engine sync", FAILED, ("empty_key", "--layout object")),
    ("doctor books.csv books", USAGE, ("ddbload plan books.csv books checks a file",)),
    ("help import", USAGE, ("did you mean ddbload import --help?",)),
    ("import books.csv books --key isbn", USAGE, ("keys are the table's", "--create-table")),
    ("import books.csv books --ttl day", USAGE, ("--types expires=epoch",)),
    ("import books.csv books --config a.toml", USAGE, ("ddbload run FILE",)),
    # The table.
    (
        "import books.csv boks",
        FAILED,
        ("there is no table boks in us-east-1", "did you mean 'books'?"),
    ),
    (
        "import books.csv other",
        FAILED,
        ("there is no table other", "--create-table KEY:TYPE", "--region"),
    ),
    (
        "import nobooks books.csv",
        USAGE,
        ("the arguments are swapped", "books.csv nobooks"),
    ),
    (
        "import nobooks s3://data/in/a.csv",
        USAGE,
        ("the arguments are swapped", "s3://data/in/a.csv nobooks"),
    ),
    (
        "import books.csv arn:aws:dynamodb:us-east-1:123456789012:table/books",
        FAILED,
        ("name the table, books",),
    ),
    # Kinds of files.
    ("import books.xml books", FAILED, ("begins as XML", "CSV or JSON Lines")),
    ("import books.html books", FAILED, ("an HTML page, as of an error or a login",)),
    ("import books.db books", FAILED, ("an SQLite database", "sqlite3 -csv -header")),
    ("import books.pdf books", FAILED, ("a PDF document",)),
    ("import books.xlsx books", FAILED, ("a spreadsheet (.xlsx or .ods); save the sheet as CSV",)),
    ("import letters.zip books", FAILED, ("letters.zip!letters.zip is an archive",)),
    ("import cut.zip books", FAILED, ("cut.zip: not a valid ZIP archive", "copy or zip it again")),
    ("import mac.zip books", FAILED, ("no file to import (only: 1 hidden)",)),
    ("import archive books --compression none", FAILED, ("a ZIP archive; unpack it",)),
    ("import archive books --compression gzip", FAILED, ("archive, about byte", "not gzip data")),
    ("import books.avro books", FAILED, ("an Avro file", "Parquet, CSV or JSON Lines")),
    ("import books.orc books", FAILED, ("an ORC file", "Parquet, CSV or JSON Lines")),
    ("import books.7z books", FAILED, ("a 7-Zip archive; unpack it: 7z x FILE",)),
    ("import books.rtf books", FAILED, ("a document in RTF",)),
    ("import books.png books", FAILED, ("a PNG image",)),
    ("import books.yaml books", FAILED, ("begins as YAML does", "JSON Lines")),
    ("import answer.xml books", FAILED, ("begins as XML", "CSV or JSON Lines")),
    ("import noise.csv books", FAILED, ("control characters", "name the file with the data")),
    ("import array.hdf books", FAILED, ("an HDF5 file", "Parquet, CSV or JSON Lines")),
    (r"import hive.txt books --engine sync --delimiter \x01", 0, ("1 written",)),
    ("import settings.ini books", FAILED, ("not the file's only column: check the delimiter",)),
    ("import aligned.txt books", FAILED, ("spaces aligned the columns", "tr -s ' ' < FILE")),
    ("import scalars.json books", FAILED, ("values that are not objects", 'such as {"id": 1}')),
    (
        "import other.jsonl books --engine sync",
        FAILED,
        ("2 empty_key", "no row has a value for a key", "--rename OLD=KEY"),
    ),
    ("import kanji.csv books --engine sync", FAILED, ("line 2", "--encoding shift-jis", "1,日本")),
    ("import dump.sql books", FAILED, ("SQL statements",)),
    ("import lines.jsonl books --format csv", FAILED, ("begins as JSON does: leave out --format",)),
    (
        "import books.csv books --format parquet",
        FAILED,
        ("leave out --format if it is not Parquet",),
    ),
    # Encodings.
    ("import latin-header.csv books", FAILED, ("line 1 has bytes", "--encoding cp1252")),
    ("plan latin.csv books", FAILED, ("line 2", "--encoding cp1252")),
    (
        "import latin.csv books --encoding utf-8 --engine sync",
        FAILED,
        ("bad_encoding", "(--encoding)"),
    ),
    ("import books.csv books --encoding utf-16", FAILED, ("not in utf-16: leave out --encoding",)),
    ("import books.csv books --encoding utf9", USAGE, ("such as utf-16 or latin-1",)),
    # Columns.
    ("import semicolons.csv books --delimiter ,", FAILED, ("2 of ';' in it", "--delimiter ';'")),
    (
        "import semicolons.csv books --delimiter | --types year=N",
        FAILED,
        ("'year'", "--delimiter ';'"),
    ),
    ("import isbn13.csv books", FAILED, ("keyed by 'isbn'", "--rename isbn13=isbn")),
    ("import upper.csv books", FAILED, ("--rename ISBN=isbn",)),
    ("import headless.csv books", FAILED, ("--no-header, --columns", "ddbload convert FILE -")),
    ("import books.csv books --types year=date:", USAGE, ("no directive gives the year",)),
    ("import books.csv books --types yaer=N", FAILED, ("'yaer'", "'year' is one")),
    ("import books.csv books --rename nmae=title", FAILED, ("'nmae'", "'name' is one")),
    ("import books.csv books --drop nmae", FAILED, ("'nmae'", "'name' is one")),
    ("import books.csv books --set pk=X#{nmae}", FAILED, ("'nmae'", "'name' is one")),
    ("import isbn13.csv books --rename isbn=isbn13", FAILED, ("OLD=NEW", "--rename isbn13=isbn")),
    ("import books.csv books --delimeter ,", USAGE, ("--delimiter",)),
    ("plan books.csv books --rejects x", USAGE, ("ddbload convert",)),
    ("import books.csv books --mode upsert", USAGE, ("that is put",)),
    ("import books.csv books --format ndjson", USAGE, ("that is json",)),
    ("import books.csv books --first 5", USAGE, ("an option of ddbload plan, ddbload convert",)),
    (
        "import books.csv books --types year=N --where name=one\tand\tyear>2",
        USAGE,
        ("joins comparisons with 'and'", "several --where"),
    ),
    # Values.
    (
        "plan tags.csv books --types tags=SS",
        FAILED,
        ("bad_json in 'tags'", 'a JSON list, such as ["a", "b"]'),
    ),
    (
        "plan letters.csv books --types ok=BOOL",
        FAILED,
        ("not_a_boolean in 'ok'", "leave it a string"),
    ),
    (
        "plan english.csv books --types n=N",
        FAILED,
        ("not_a_number in 'n'", "say --thousands and --decimal"),
    ),
    ("plan german.csv books --types n=N", FAILED, ("decimal comma",)),
    ("plan dollars.csv books --types n=N", FAILED, ("a sign or unit beside the digits",)),
    ("plan days.csv books --types day=epoch", FAILED, ("2026-01-31", "the year comes first")),
    ("plan list.csv books --types l=L", FAILED, ("write a JSON list, such as []",)),
    (
        "import letters.csv books --types ok=BOOL --engine sync",
        FAILED,
        ("1 not_a_boolean", "--summary says why"),
    ),
    # Nothing to do.
    ("import empty.csv books", 0, ("warning: the source has no rows",)),
    ("import header.csv books", 0, ("warning: the source has no rows",)),
    ("import blank.csv books", 0, ("warning: the source has no rows",)),
    ("import - books", 0, ("warning: the source has no rows",)),
    # Ledgers and runs.
    (
        "import books.csv books --ledger books.csv",
        USAGE,
        ("the ledger books.csv is a file: name a folder",),
    ),
    ("import books.csv books --ledger /proc/x", FAILED, ("cannot be written at /proc/x",)),
    (
        "import books.csv books --rejects no/such/file",
        USAGE,
        ("--rejects no/such/file: No such file",),
    ),
    ("status frist", FAILED, ("there is no run frist", "did you mean 'first'?")),
    ("resume nobody", FAILED, ("there is no run nobody", "the newest here: ")),
    ("rejects nobody", FAILED, ("ddbload runs lists them",)),
    ("report nobody --ledger folder", FAILED, ("there is no run nobody", "ddbload runs lists")),
    ("start books.csv books", USAGE, ("upload it first, or use ddbload import",)),
]
"""Command line, exit status, and what is said."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("mistakes")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    (folder / "folder").mkdir()
    return folder


class Tables(FakeDynamoDB):
    """DynamoDB that lists its tables."""

    def list_tables(self) -> dict[str, Any]:
        return {"TableNames": ["books"]}


def _refuse(_: Clients, service: str, **__: object) -> None:
    raise AwsConfiguration(f"no {service} here")


def _services() -> dict[str, Any]:
    dynamodb, s3 = Tables(), FakeS3()
    dynamodb.create_table(**keyed("books", isbn="S"))
    s3.create_bucket(Bucket="data")
    s3.put_object(Bucket="data", Key="in/books.csv", Body=b"isbn,name\n1,a\n")
    return {"dynamodb": dynamodb, "s3": s3}


@pytest.fixture(scope="module")
def services(files: Any) -> Iterator[dict[str, Any]]:
    """Serve a table, a bucket and a ledger with one run to all mistakes."""
    patch = pytest.MonkeyPatch()
    made = _services()
    for service, client in made.items():
        patch.setattr(Clients, service, property(lambda _, client=client: client))
    patch.setattr(Clients, "service", _refuse)
    patch.setenv("DDBLOAD_LEDGER", str(files / "ledger"))
    patch.chdir(files)
    arguments = ["import", "books.csv", "books", "--run-id", "first", "--engine", "sync", "--quiet"]
    assert run(arguments, lambda: False) == 0
    yield made
    patch.undo()


@pytest.fixture
def said(services: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    assert services

    class Empty:
        buffer = io.BytesIO()

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Empty())
    monkeypatch.setenv("COLUMNS", "400")

    def say(line: str) -> tuple[int, str]:
        status = run(line.split(" "), lambda: False)
        shown = capfd.readouterr()
        return status, shown.err + shown.out

    return say


@pytest.mark.parametrize(("line", "status", "words"), MISTAKES, ids=[each[0] for each in MISTAKES])
def test_mistake_is_told_with_what_helps(said, line, status, words):
    ended, text = said(line)
    assert (ended, [word for word in words if word not in " ".join(text.split())]) == (
        status,
        [],
    ), text
    assert "Traceback" not in text
    assert "secret" not in text


@pytest.mark.parametrize(("arguments", "engine"), [((), "threads"), (("--engine", "async"), None)])
def test_proxy_changes_only_the_default_engine(
    services, files, capfd, monkeypatch, arguments, engine
):
    meta = services["dynamodb"].meta
    monkeypatch.setattr(meta, "endpoint_url", "https://dynamodb.us-east-1.amazonaws.com")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    line = ["import", "books.csv", "books", "--run-id", f"proxy-{engine}", *arguments]
    status = run(line, lambda: False)
    shown = capfd.readouterr().err
    notice = "ddbload: HTTPS_PROXY names a proxy, so this run uses --engine threads"
    assert shown.count(notice) == (engine is not None)
    assert "secret" not in shown
    if engine:
        record = json.loads(
            (files / "ledger" / "runs" / f"proxy-{engine}" / "run.json").read_text()
        )
        assert (status, record["payload"]["options"]["engine"]) == (0, engine)


def test_host_without_proxy_keeps_the_default_engine(services, capfd, monkeypatch):
    meta = services["dynamodb"].meta
    monkeypatch.setattr(meta, "endpoint_url", "https://dynamodb.us-east-1.amazonaws.com")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", ".amazonaws.com")
    run(["import", "header.csv", "books"], lambda: False)
    assert "proxy" not in capfd.readouterr().err


def test_terminal_as_input_is_told(said, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    status, text = said("import - books")
    assert (status, text.count("reading rows from the terminal until Ctrl-D")) == (0, 1)


FOREIGN = {
    *("--attribute-definitions", "--billing-mode", "--bucket", "--key-schema"),
    *("--export-format", "--force", "--global-secondary-index-updates", "--help", "--help-all"),
    "--max-items",
    "--no-paginate",
    *("--point-in-time-recovery-specification", "--provisioned-throughput", "--table-name"),
    *("--ultra", "--warm-throughput"),
}
"""Options of other programs that messages name, and click's own."""
DRAWN = ("cli/demo_command.py", "deploy/", "report_page/")
"""Modules with options of other programs, and with style sheets."""


def _strings(path: Path) -> Iterator[str]:
    """Yield the texts of a module, without its docstrings."""
    tree = ast.parse(path.read_text())
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


def test_options_in_messages_exist():
    known = {
        name
        for command in commands.commands.values()
        for each in command.params
        for name in (*each.opts, *each.secondary_opts)
    }
    root = Path(ddbload.__file__).parent
    unknown = {
        (name, option)
        for path in root.rglob("*.py")
        if not (name := path.relative_to(root).as_posix()).startswith(DRAWN)
        for text in _strings(path)
        # The hints' keys are options of other programs.
        if name != "cli/hints.py" or not text.startswith("-")
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)
        if option not in known | FOREIGN
    }
    assert unknown == set()


def test_variable_that_is_not_read_is_named(said, monkeypatch):
    monkeypatch.setenv("DDBLOAD_MODE", "insert")
    monkeypatch.setenv("DDBLOAD_MAX_WUC", "5")
    status, text = said("import books.csv books --engine sync --dry-run")
    assert status == 0, text
    assert "DDBLOAD_MODE is not read: for ddbload import set DDBLOAD_IMPORT_MODE" in text
    assert "DDBLOAD_MAX_WUC is not read; did you mean DDBLOAD_MAX_WCU?" in text


def test_commands_of_a_plan_stay_in_one_line(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, text = said("plan books.csv new --create-table isbn:S")
    command = next(line for line in text.splitlines() if "create-table" in line)
    assert command.startswith("  ddbload import books.csv new --create-table isbn:S")
