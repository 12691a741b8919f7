"""Each recipe of docs/recipes.md works as it stands, in an empty folder without a table."""

from __future__ import annotations

import re

import pytest

from tests.cli.console import ROOT
from tests.cli.transcript import delete_table

PAGE = (ROOT / "docs" / "recipes.md").read_text("utf-8")
RECIPES = {
    title: section
    for title, section in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    if "```sh" in section
}


def test_there_are_twenty_recipes():
    assert len(RECIPES) >= 20


@pytest.fixture(scope="module")
def bucket(s3):
    s3.create_bucket(Bucket="my-bucket")
    s3.put_object(Bucket="my-bucket", Key="in/a.csv", Body=b"id,n\na,1\n")
    yield
    s3.delete_object(Bucket="my-bucket", Key="in/a.csv")
    s3.delete_bucket(Bucket="my-bucket")


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("title", RECIPES)
def test_recipe_works(title, console, dynamodb):
    before = set(dynamodb.list_tables()["TableNames"])
    (commands,) = re.findall(r"```sh\n(.*?)```", RECIPES[title], re.DOTALL)
    shown = re.findall(r"```console\n(.*?)```", RECIPES[title], re.DOTALL)
    ended = console.shell(f"set -e\n{commands}")
    made = set(dynamodb.list_tables()["TableNames"]) - before
    items = {name: dynamodb.scan(TableName=name)["Items"] for name in made}
    for name in made:
        # Other tests of this process create tables of the same names.
        delete_table(dynamodb, name)
    assert ended.code == 0, ended.err
    for line in "".join(shown).splitlines():
        assert line in ended.out
    if "--create-table" in commands:
        assert all(items.values()), items
    expected = {
        "Expire items by TTL": [{"id": {"S": "a"}, "expires": {"N": "1801396800"}}],
        "Change some attributes of items (upsert)": [
            {"isbn": {"S": "a"}, "title": {"S": "Emma"}, "year": {"N": "1816"}}
        ],
        "Delete the listed keys": [{"isbn": {"S": "b"}}],
        "Decimal commas": [{"isbn": {"S": "a"}, "price": {"N": "1234.5"}}],
        "Keys of a single-table design": [
            {"pk": {"S": "USER#7"}, "sk": {"S": "ORDER#1001"}, "total": {"N": "12.5"}}
        ],
    }
    if title in expected:
        assert list(items.values()) == [expected[title]]
