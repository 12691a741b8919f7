"""The app of docs/construct.md, made by the installed wheel: its pipelines load uploads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e_stack.deployed import PAGE_STACK, Cloud, Stack
from tests.e2e_stack.upload_events import run_of
from tests.infra.synthesis import Synthesized


@pytest.fixture(scope="module")
def pipelines(cloud: Cloud, page_app: Synthesized) -> list[Stack]:
    return cloud.deploy_assembly(PAGE_STACK, page_app.folder, "", "Films")


@pytest.mark.parametrize(
    ("number", "key", "data", "item"),
    [
        (0, "isbn:S", "isbn,year\n978,1999\n", {"isbn": {"S": "978"}, "year": {"N": "1999"}}),
        (1, "id:N", "id,title\n7,Se7en\n", {"id": {"N": "7"}, "title": {"S": "Se7en"}}),
    ],
    ids=["books", "films"],
)
def test_upload_is_loaded_by_its_pipeline(
    cloud: Cloud,
    pipelines: list[Stack],
    console: Any,
    number: int,
    key: str,
    data: str,
    item: dict[str, Any],
):
    pipeline = pipelines[number]
    (table,) = pipeline.tables
    cloud.table(key, name=table)
    name = f"{('books', 'films')[number]}/a.csv"
    run = run_of(pipeline, pipeline.execution_of(name, pipeline.upload(data, name)))
    assert run.ended.status == "SUCCEEDED"
    assert cloud.items(table) == [item]

    stack = f"{PAGE_STACK}{('', '/Films')[number]}"
    shown = console.run(["ddbload", "status", run.id, "--stack", stack, "--json"])
    assert (shown.code, run.id in shown.out) == (0, True)
