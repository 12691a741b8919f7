"""Payloads that are wrong: each fails by a name and a cause, and before anything is written.

Every kind of mistake is in tests/unit: test_messages.py, test_hostile_payloads.py and
test_preflight_errors.py.
"""

from __future__ import annotations

import pytest

from tests.e2e_stack.deployed import FORBIDDEN, SOURCES
from tests.e2e_stack.files import HEADER, MARKER, plain, rows
from tests.e2e_stack.runs import Run

FILES = {
    "good.csv": plain(3),
    "keyless.csv": f"key,name\n{MARKER},a\n".encode(),
    "unclosed.csv": (HEADER + rows(3) + f'{MARKER}-4,"never closed,\n' + rows(3, 5)).encode(),
    "long.csv": f"{HEADER}{MARKER},{'x' * 500},\n".encode(),
    "a.parquet": b"PAR1" + bytes(100) + b"PAR1",
    "list": f"s3://{SOURCES}/good.csv\ns3://{FORBIDDEN}/secret.csv\n".encode(),
}

GOOD = {"source": {"bucket": SOURCES, "key": "good.csv"}, "target": {"table": "TABLE"}}


def given(**changes):
    """The good payload with changes, as `source__key="b"`."""
    made = {name: dict(value) for name, value in GOOD.items()}
    for path, value in changes.items():
        *outer, name = path.split("__")
        place = made
        for each in outer:
            place = place.setdefault(each, {})
        place[name] = value
    return made


BAD = {
    # Not what a payload is at all.
    "null": (None, "InvalidPayload", "the input must be a JSON object, not null"),
    "a-text": ("good.csv", "InvalidPayload", "the input must be a JSON object, not a string"),
    "a-list": ([GOOD], "InvalidPayload", "the input must be a JSON object, not a list"),
    "nothing": ({}, "InvalidPayload", "'source' is missing"),
    # Fields that are large, or that the state machine reads.
    "unknown-by-the-thousand": (
        {**GOOD, **{f"unknown-field-{number}": number for number in range(8000)}},
        *("InvalidPayload", "unknown field 'unknown-field-0'"),
    ),
    "unknown-and-very-long": (
        *(given(**{"x" * 200_000: 1}), "InvalidPayload", "unknown field 'xxx"),
    ),
    "source-is-a-text": (given(source="s3://b/k"), "InvalidPayload", "'source' must be a JSON"),
    "run-is-a-text": (given(run="mine"), "InvalidPayload", "'run' must be a JSON object"),
    "run-id": (given(run={"id": "../up"}), "InvalidPayload", "a run id has 1 to 80 letters"),
    # What may not be touched.
    "table-not-allowed": (given(target__table="others"), "TableNotAllowed", "table others is not"),
    "table-by-arn": (
        given(target__table="arn:aws:dynamodb:eu-west-1:999999999999:table/t01"),
        *("TableNotAllowed", "arn:aws:dynamodb:eu-west-1:999999999999:table/t01: name the table"),
    ),
    "bucket-not-allowed": (
        *(given(source__bucket=FORBIDDEN), "BucketNotAllowed", f"bucket {FORBIDDEN} is not among"),
    ),
    # What is not there.
    "no-such-object": (
        *(given(source__key="no.csv"), "SourceNotFound", f"s3://{SOURCES}/no.csv: no such object"),
    ),
    "another-etag": (given(source__etag='"0"'), "SourceChanged", "its ETag is not the one"),
    "no-such-table": (given(target__table="UNMADE"), "TableNotFound", "UNMADE"),
    "no-such-run": (
        *({"run": {"resume_of": "nobodys"}}, "RunNotFound", "there is no run nobodys"),
    ),
    "resumed-with-a-source": (
        given(run={"resume_of": "nobodys"}),
        *("InvalidPayload", "cannot be given with 'run.resume_of'"),
    ),
    # What does not fit.
    "keyless": (given(source__key="keyless.csv"), "KeyColumnMissing", "keyed by 'id'"),
    "types-of-no-columns-by-the-thousand": (
        given(types={f"column-{number}": "BOOL" for number in range(9000)}),
        *("UnknownColumn", "column-0"),
    ),
    # The stack of these tests has no layer with pyarrow.
    "parquet": (
        given(source__key="a.parquet", source__format="auto"),
        *("ExtraMissing", "cdk deploy -c extras=parquet"),
    ),
    "a-manifest-of-what-is-not-allowed": (
        given(source={"manifest": f"s3://{SOURCES}/list"}),
        *("BucketNotAllowed", FORBIDDEN),
    ),
}
# The scan finds these: the run has begun then, and has a report.
BAD_FILES = {
    "unclosed": (given(source__key="unclosed.csv"), "UnterminatedQuote", "line 5"),
    "long-row": (
        given(source__key="long.csv", options={"max_row_bytes": 100}),
        *("RowTooLong", "line 2, byte 13 is longer than 100 bytes"),
    ),
}


@pytest.fixture(scope="module")
def runs(stack):
    """All started at once."""
    for key, data in FILES.items():
        stack.put(data, key)
    names = {"TABLE": stack.cloud.table(), "UNMADE": stack.cloud.unmade_table()}

    def named(value):
        if isinstance(value, dict):
            return {name: named(each) for name, each in value.items()}
        return names.get(value, value) if isinstance(value, str) else value

    started = {
        name: Run(stack, f"bad-{name}", stack.start(named(payload), f"bad-{name}"))
        for name, (payload, _, _) in {**BAD, **BAD_FILES}.items()
    }
    return started, names


def fails(runs, name, error, cause):
    started, names = runs
    ended = started[name].ended
    assert (ended.status, ended.error) == ("FAILED", error), ended.cause
    assert cause.replace("UNMADE", names["UNMADE"]) in ended.cause
    # It was told by Report, in the words of the error alone.
    assert not ended.cause.startswith("{")
    assert ended.entered("Report") == 1
    assert ended.entered("ImportChunks") == 0
    assert started[name].stack.cloud.items(names["TABLE"]) == []
    return started[name]


@pytest.mark.parametrize("name", BAD)
def test_invalid_payload_fails_run(runs, name):
    run = fails(runs, name, *BAD[name][1:])
    assert {*run.names()} <= {"execution.json", "request.json"}


@pytest.mark.parametrize("name", BAD_FILES)
def test_invalid_file_fails_run(runs, name):
    run = fails(runs, name, *BAD_FILES[name][1:])
    assert sorted(run.names()) == [
        *("report.html", "report.json", "request.json", "run.json"),
    ]
    report = run.json("report.json")
    assert (report["status"], report["error"]["name"]) == ("FAILED", BAD_FILES[name][1])
    assert report["rows"]["read"] == 0
