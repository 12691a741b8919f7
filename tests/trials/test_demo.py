"""`make demo` imports the rows that it generates: CI runs it with a file."""

from __future__ import annotations

import re

from tests.e2e.whole_demo import demo

__all__ = ["demo"]

STEP = r" *\d+\.\d s  "
URL = r"http://127\.0\.0\.1:\d+"


def test_demo_deploys_and_imports_generated_rows(demo):
    ended = demo.ddbload("demo", "--rows", "6000")
    assert ended.code == 0
    assert re.fullmatch(r"(ddbload: \d+ % .*\n)*", ended.err), ended.err
    run = re.search(r"starts a run: (upload-[0-9a-f]{40})\n", ended.out)
    assert run is not None, ended.out
    assert re.fullmatch(
        r"generated 6,000 rows, [\d,]+ bytes, tab-separated\n"
        rf"{STEP}AWS emulator: {URL}, DynamoDB {URL}\n"
        rf"{STEP}cdk bootstrap and cdk synth\n"
        rf"{STEP}cdk deploy: stack ddbload-demo\n"
        rf"{STEP}upload: s3://[\w-]+/in/sample\.tsv\n"
        rf"{STEP}the upload's event starts a run: {run[1]}\n"
        rf"run {run[1]}: SUCCEEDED\n"
        r"  rows      6,000 read: 6,000 written\n"
        r"  chunks    [23] of [23] imported and verified\n"
        r"  time      .*\n  requests  .*\n  units     .*\n"
        rf"  report    s3://[\w-]+/runs/{run[1]}/report\.json, until the demo ends\n"
        r"verified by a scan: 6,000 items, one for each of the file's 6,000 keys, equal cell by"
        r" cell\n",
        ended.out,
    ), ended.out
    assert list(demo.folder.parent.joinpath("home").iterdir()) == []
