"""After failures no row is lost or counted twice, and no false success is reported."""

from __future__ import annotations

import json
import os
import signal

from tests.e2e.processes import children, command_of
from tests.e2e_stack.deployed import until
from tests.e2e_stack.files import HEADER, bad_rows, plain, rows
from tests.e2e_stack.runs import Run, load

POISON = 2200
"""More bad rows than are looked at together: the chunk stops before its end."""
POISONED = (HEADER + rows(120) + "x\n" * POISON + rows(120, 120)).encode()


def resumed(console, run, *options):
    """Its exit status, and its JSON object."""
    ended = console.ddbload("resume", run, "--json", *options)
    return ended.code, json.loads(ended.out)


def test_poisoned_chunk_fails_run_and_not_its_siblings(stack, console):
    """Its siblings finish, the run fails by its name, and a higher limit completes it."""
    poisoned = load(stack, POISONED, run="poisoned", chunk_bytes=2 * POISON, max_rejects=2)
    ended = poisoned.fails("TooManyRejects")
    report = poisoned.run.json("report.json")
    failed = [each["chunk"] for each in report["failures"]]
    assert report["error"]["chunk"] == failed[0]
    where = f"more rejects than max_rejects allows (2), most in chunk {failed[0]}:"
    assert where in ended.cause
    assert report["chunks_done"] == report["chunks"] - len(failed) >= 2
    untouched = [each for each in poisoned.run.segments() if each["proven"]]

    code, found = resumed(console, "poisoned", "--max-rejects", str(POISON))
    assert (code, found["status"], found["rows"]["rejected"]) == (
        3,
        "SUCCEEDED_WITH_REJECTS",
        POISON,
    )
    poisoned.is_loaded()
    assert [each for each in poisoned.run.segments() if each in untouched] == untouched
    # The first execution stays what it was.
    assert Run(stack, "poisoned").status == "FAILED"


def test_rejects_of_many_chunks_are_reported(stack, console):
    """Few in each of them, and too many together: only Report can tell."""
    data = "".join([HEADER, *(rows(9, 9 * number) + bad_rows(1) for number in range(6))]).encode()
    rejected = load(stack, data, run="rejected", chunk_bytes=380, max_rejects=3)
    ended = rejected.fails("TooManyRejects")
    assert ended.cause.startswith("6 rows were rejected, and max_rejects is 3")
    report = rejected.run.json("report.json")
    assert report["chunks_done"] == report["chunks"]
    assert resumed(console, "rejected", "--max-rejects", "6")[0] == 3
    rejected.is_loaded()


def test_chunk_without_permission_fails_run(stack, console):
    """One chunk's place in the ledger, by somebody's policy: the others know nothing of it."""
    iam = stack.cloud.client("iam")
    role = stack.role("import_chunk")
    statement = {
        "Effect": "Deny",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{stack.work}/runs/forbidden/chunks/00002/*",
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName=role, PolicyName="Forbidding", PolicyDocument=policy)
    try:
        forbidden = load(stack, plain(50), run="forbidden", chunk_bytes=400, workers=1)
        forbidden.fails("AccessDenied")
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName="Forbidding")
    report = forbidden.run.json("report.json")
    assert [each["chunk"] for each in report["failures"]] == [2]
    assert report["error"]["chunk"] == 2
    assert report["chunks_done"] == report["chunks"] - 1
    assert resumed(console, "forbidden")[0] == 0
    forbidden.is_loaded()


def test_damaged_ledger_fails_run(stack, console):
    """A damaged object has the name of the second chunk's segment, which stops its group."""
    data = plain(40)
    lines = data.splitlines(keepends=True)
    start = len(b"".join(lines[:11]))
    key = f"runs/damaged/chunks/00001/{start}.json"
    stack.cloud.s3.put_object(Bucket=stack.work, Key=key, Body=b'{"rows": "all"}')
    damaged = load(stack, data, run="damaged", chunk_bytes=start - len(lines[0]))
    ended = damaged.run.ended
    assert (ended.status, ended.error) == ("FAILED", "LedgerDamaged")
    assert key in ended.cause
    shown = console.ddbload("report", "damaged")
    assert (shown.code, "LedgerDamaged" in shown.err) == (1, True)
    # on_stopped cannot read it either, and is not to meet a ledger that is whole again.
    until(lambda: stack.undelivered, "on_stopped does not fail")

    stack.cloud.s3.delete_object(Bucket=stack.work, Key=key)
    assert resumed(console, "damaged")[0] == 0
    damaged.is_loaded()


def functions_of(cloud, step):
    """The processes in which a function runs."""
    found, left = [], [cloud.aws.pid]
    while left:
        left += (more := children(left.pop()))
        found += more
    return [pid for pid in found if f"lambdas.{step}.handler" in command_of(pid)]


def test_killed_function_is_retried(stack):
    """A function is killed, as for want of memory: its rows are written again, and counted once."""
    # Twenty rows a second in each of four chunks, for five seconds: all of them are under way.
    killed = load(stack, plain(400), run="killed", chunk_bytes=4200, workers=4, max_wcu=80)
    until(lambda: len(stack.cloud.items(killed.table)) > 60, "nothing is written")
    assert killed.run.names("chunks/") == []
    for pid in functions_of(stack.cloud, "import_chunk"):
        os.kill(pid, signal.SIGKILL)
    ended = killed.succeeds()
    assert ended.output["chunks"] > 3
    assert killed.run.json("report.json")["rows"]["written"] == 400
    assert killed.run.json("report.json")["failures"] == []


def test_overwritten_source_fails_run(stack, console):
    """In a bucket that keeps no versions there is nothing left to read on in."""
    changed = load(stack, plain(150), run="changed", chunk_bytes=150, workers=1, max_wcu=20)
    changed.run.reaches("chunks/")
    key = changed.run.json("run.json")["payload"]["source"]["key"]
    stack.put(plain(150, first=150), key)
    ended = changed.fails("SourceChanged")
    assert key in ended.cause
    report = changed.run.json("report.json")
    assert 0 < report["chunks_done"] < report["chunks"]
    code, found = resumed(console, "changed")
    assert (code, found["error"]["name"]) == (1, "SourceChanged")
    assert key in found["error"]["message"]
    told = changed.run.json("report.json")["error"]
    assert (told["name"], told["message"]) == tuple(found["error"].values())


def test_stopped_execution_is_reported_and_resumed(stack, console):
    """Nobody reports then: the ledger still knows, and `resume` completes it."""
    stopped = load(stack, plain(80), run="stopped", chunk_bytes=70, workers=1, max_wcu=20)
    stopped.run.reaches("chunks/")
    stack.cloud.stepfunctions.stop_execution(executionArn=stopped.run.arn)
    assert stopped.run.ended.status == "ABORTED"
    assert stopped.run.names("report.json") == []
    shown = console.ddbload("report", "stopped", "--json")
    assert (shown.code, json.loads(shown.out)["status"]) == (130, "CANCELLED")
    code, found = resumed(console, "stopped", "--workers", "4")
    assert (code, found["rows"]["written"]) == (0, 80)
    stopped.is_loaded()
