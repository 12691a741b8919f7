"""Pages that are generated are what their source makes of them, and their examples work."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import ddbload
from tests.docs import options, python

DOCS = Path(__file__).parents[2] / "docs"


def test_options_are_those_declared():
    assert (DOCS / "options.md").read_text("utf-8") == options.page()


def test_reference_of_python_is_that_of_its_docstrings():
    assert python.PAGE.read_text("utf-8") == python.page()


def test_types_of_options_are_those_declared():
    assert options.STUB.read_text("utf-8") == options.stub()


BOOKS = "isbn,title,year\na,Old,1850\nb,,1900\nc,New,1997\n"
EXAMPLES = re.findall(r"```python\n(.*?)```", python.PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_of_the_page_works(example, python_table, tmp_path):
    (tmp_path / "books.csv").write_text(BOOKS)
    folder = tmp_path / "exports" / "2026-11-29"
    folder.mkdir(parents=True)
    (folder / "books.csv").write_text(BOOKS)
    # A file, because the identity of a function is the hash of its source.
    (tmp_path / "example.py").write_text(example.replace('"books"', '"books-of-python"'))
    names = runpy.run_path(str(tmp_path / "example.py"))
    if "load_books" in names:
        assert names["load_books"]("2026-11-29") == 3
        # A task that is run again has nothing left to do.
        assert names["load_books"]("2026-11-29") == 3
    if "seeded" in names:
        names["seeded"].__wrapped__(tmp_path)
    assert python_table() > 0
    if "books_since_1900" in names:
        assert python_table() == 1
        assert names["result"].rows.filtered == 1
        (reject,) = ddbload.rejects(names["result"].run)
        assert reject["detail"] == "ValueError: no title"
