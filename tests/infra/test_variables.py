"""What does not fit where AWS keeps it is refused before anything is deployed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.errors import TooManySettings
from infra.settings import Settings
from infra.variables import check
from tests.infra.template import Template


def settings(**context: Any) -> Settings:
    return Settings.from_context(context)


def mapped(number: int, prefix: str) -> list[dict[str, str]]:
    return [{"prefix": f"{each}{prefix}", "table": "books"} for each in range(number)]


@pytest.mark.parametrize(
    ("context", "says"),
    [
        (
            {"tables": [f"{each:03d}{'t' * 200}" for each in range(20)]},
            "the environment of on_upload",
        ),
        (
            {"tables": "books", "uploads": mapped(40, "p/")},
            "the environment of on_upload",
        ),
        (
            {"tables": [f"{each:03d}" for each in range(150)]},
            "the policy of import_chunk",
        ),
        (
            {"source_buckets": [f"{each:03d}{'b' * 40}" for each in range(70)]},
            "the policy of import_chunk",
        ),
        (
            {"tables": "books", "uploads": mapped(5, "p" * 400)},
            "the event pattern for uploads to the inbox",
        ),
    ],
)
def test_too_much(context: dict[str, Any], says: str):
    with pytest.raises(TooManySettings, match=says):
        check(settings(**context))


def test_an_ordinary_deployment_fits():
    check(settings())
    check(
        settings(
            tables=[f"a-table-of-an-ordinary-name-{each}" for each in range(40)],
            source_buckets=[f"a-bucket-of-an-ordinary-name-{each}" for each in range(10)],
        )
    )


def test_what_is_counted_is_not_less_than_what_is_deployed(template: Template):
    """The policy's part that no knob changes, with the longest names that CloudFormation gives."""
    statements = template.statements("FunctionsImportChunkRole")
    of_knobs = ("table/", "other-source", "third.source")
    for statement in statements.values():
        if isinstance(statement["Resource"], list):
            statement["Resource"] = [
                each for each in statement["Resource"] if not any(one in each for one in of_knobs)
            ]
    text = json.dumps(list(statements.values()), separators=(",", ":"))
    for name in ("StorageWork", "StorageInbox"):
        text = text.replace(f"${{{name}.Arn}}", f"arn:aws:s3:::{'b' * 63}")
    text = text.replace("${ObservabilityImportChunk.Arn}", "l" * 200)
    assert "${" not in text
    assert len(text) < 2500
