"""Parts that load files: figures of runs, their rows, and their rates."""

from __future__ import annotations

import json
import sys
import time

from ddbload.aws.table_description import NEW_TABLE_RATE
from ddbload.plan.price import writes
from proof.deployment import run_command
from proof.session import RUN_SECONDS, Session, median, require, rows, succeeded

WCU = 500
"""Write capacity units of the provisioned table."""
SLOW = 60
"""Write units a second of runs that are to be interrupted."""
_BAD_EVERY = 1000
_BENCHMARKS = "docs/contributing/benchmarks.md#the-rate-beside-boto3 (simulated)"


def load_csv(session: Session) -> None:
    """Load a large file, of which each thousandth row has a field too many."""
    count = session.size
    bad = count // _BAD_EVERY
    lines = (
        f"{row.rstrip()},odd\n" if number % _BAD_EVERY == _BAD_EVERY - 1 else row
        for number, row in enumerate(rows(count))
    )
    source, size = session.put("csv.csv", lines)
    limits = ("--max-rejects", str(bad), "--max-cost", f"{session.work.max_cost:.6f}")
    report = session.stack.start(
        "csv", source, session.tables["csv"], *limits, seconds=session.work.seconds
    )
    session.charge(report, workers=session.work.workers)
    found = report["rows"]
    require(
        (report["status"], found["read"], found["rejected"], found["written"])
        == ("SUCCEEDED_WITH_REJECTS", count, bad, count - bad),
        f"csv: {report['status']}, {found}, of {count:,} rows and {bad:,} rejects",
    )
    items = session.count("csv")
    require(items == count - bad, f"csv: {items:,} items of {count - bad:,}")
    name = f"{size / 1e6:,.1f} MB, {count:,} rows"
    session.measured(name, f"{items:,} items, {bad:,} rejects", "the same", "the file")
    rate = f"{report['rows_per_second']:,.0f} rows/s in {report['seconds']:,.1f} s"
    session.on_aws(
        *("rate", rate, f"{NEW_TABLE_RATE:,} write units/s", "docs/cost.md#assumptions"),
        "dynalite has no limits",
    )
    expected = f"${writes(count - bad).dollars:.4f}"
    shown = f"${report['dollars'] or 0:.4f}"
    session.measured("write units by DynamoDB's answers", shown, expected, "docs/cost.md")


def insert_twice(session: Session) -> None:
    """Load a file by mode `insert`, and again."""
    count = session.size
    source, _ = session.put("insert.csv", rows(count))
    for run, written, skipped in (("insert-1", count, 0), ("insert-2", 0, count)):
        report = session.stack.start(
            *(run, source, session.tables["insert"], "--mode", "insert"),
            seconds=session.work.seconds,
        )
        session.charge(report)
        found, identical = report["rows"], report.get("identical")
        require(
            (found["written"], found["skipped"], identical or 0) == (written, skipped, skipped),
            f"{run}: {report['status']}, {found}, {identical} identical",
        )
        session.measured(
            f"{run}: {count:,} rows",
            f"{written:,} written, {skipped:,} skipped as identical, {report['seconds']:.1f} s",
            "each row written once",
            "docs/limits.md#insert",
        )


def last_wins(session: Session) -> None:
    """Load a file in which each key comes twice."""
    count = session.size
    both = (text for each in ("old", "new") for text in rows(count, text=each))
    source, _ = session.put("order.csv", both)
    options = ("--mode", "last-wins", "--position-attribute", "at")
    report = session.stack.start(
        "order", source, session.tables["order"], *options, seconds=session.work.seconds
    )
    session.charge(report)
    later = session.count("order", text="new")
    require(later == session.count("order") == count, f"order: {later:,} later rows of {count:,}")
    session.measured(
        f"{count:,} keys, each twice",
        f"{later:,} have the later row, {report['seconds']:.1f} s",
        "all",
        "docs/limits.md#last-wins",
    )


def limit_and_cancel(session: Session) -> None:
    """Lower the limit of a run, and cancel it."""
    count = session.size
    source, size = session.put("slow.csv", rows(count))
    slowly = ("--max-wcu", str(SLOW), "--workers", "1", "--detach")
    session.stack.start("slow", source, session.tables["slow"], *slowly)
    account, begun = session.account, time.monotonic()
    account.until(lambda: session.count("slow"), "the first item", RUN_SECONDS)
    lower, begun_limit = SLOW // 4, time.monotonic()
    session.stack.ddbload("limit", "slow", "--max-wcu", str(lower))
    taken = time.monotonic() - begun_limit
    # Workers obey within 5 seconds, and have requests in flight.
    time.sleep(6)
    before, at = session.count("slow"), time.monotonic()
    time.sleep(6)
    rate = (session.count("slow") - before) / (time.monotonic() - at)
    session.measured(
        f"limit from {SLOW} to {lower} units/s",
        f"{rate:.1f} units/s after 6 s; the command took {taken:.1f} s",
        f"{lower} units/s within 5 s",
        "docs/operations.md#limit-and-cancel",
    )
    require(rate < SLOW / 2, f"the limit is {lower} units/s, and the run wrote {rate:.1f}")

    asked = time.monotonic()
    cancelled = session.stack.ddbload("cancel", "slow")
    taken = time.monotonic() - asked
    left = session.count("slow")
    account.pause(5)
    after = session.count("slow") - left
    require(
        (cancelled["status"], cancelled["silent"], after) == ("CANCELLED", [], 0),
        f"cancel: {cancelled['status']}, silent {cancelled['silent']}, {after} rows afterwards",
    )
    session.measured(
        "cancel",
        f"{taken:.1f} s, {after} rows afterwards",
        "about 5 s, no row afterwards",
        "docs/operations.md#limit-and-cancel",
    )
    seconds = time.monotonic() - begun
    session.charge({"bytes": size, "seconds": seconds, "dollars": writes(left).dollars})


def stop_and_resume(session: Session) -> None:
    """Stop an execution as the console does, and resume its run."""
    count = session.size
    source, _ = session.put("stop.csv", rows(count))
    slowly = ("--max-wcu", str(SLOW), "--workers", "1", "--detach")
    stack = session.stack
    stack.start("stop", source, session.tables["stop"], *slowly)
    session.account.until(lambda: session.count("stop"), "the first item", RUN_SECONDS)
    asked = time.monotonic()
    stack.account.client("stepfunctions").stop_execution(executionArn=stack.execution("stop"))
    ended = stack.ended("stop", RUN_SECONDS)
    require(ended.status == "CANCELLED", f"the stopped run is {ended.status}")
    session.measured(
        "from the stop to the event of the cancelled run",
        f"{ended.at - asked:.1f} s",
        "some seconds",
        "docs/operations.md#limit-and-cancel",
    )
    report = stack.ddbload("resume", "stop", "--max-wcu", "none", seconds=session.work.seconds)
    session.charge(report)
    items, done = session.count("stop"), report["rows"]["read"]
    require(
        (report["status"], done, items) == ("SUCCEEDED", count, count),
        f"resumed: {report['status']}, {done:,} rows, {items:,} items of {count:,}",
    )
    session.measured(
        "resumed",
        f"{items:,} items, no row counted twice",
        f"{count:,}",
        "docs/operations.md#resume",
    )


def beside_boto3(session: Session) -> None:
    """Load a provisioned table by ddbload, then by boto3's batch writer with adaptive retries.

    One after the other, so that neither finds capacity that was saved meanwhile.
    """
    count = session.size
    source, _ = session.put("limited.csv", rows(count))
    table = session.tables["limited"] = session.maker.table("limited", write_units=WCU)
    report = session.stack.start("limited", source, table, seconds=session.work.seconds)
    session.charge(report)
    mine = report["rows"]["written"] / report["seconds"]
    path = session.folder / "boto3.csv"
    path.write_text("id,text\n" + "".join(rows(count, first=count)), "utf-8")
    settings = {
        "columns": {"id": "S", "text": "S"},
        "delimiter": ",",
        "header": True,
        "concurrency": 8,
        "checks": True,
    }
    writer = (sys.executable, "-m", "bench.rivals.adaptive")
    words = [*writer, str(path), table, json.dumps(settings)]
    begun = time.monotonic()
    status, _, err = run_command(words, seconds=session.work.seconds)
    theirs = count / (time.monotonic() - begun)
    require(status == 0, f"boto3's writer failed: {err.strip()[-200:]}")
    for name, rate, expected in (
        ("ddbload", mine, "99.5 to 100.2 %"),
        ("boto3, adaptive", theirs, "64.3 to 100.5 %"),
    ):
        shown = f"{rate:,.0f} rows/s, {rate / WCU:.1%} of {WCU}"
        session.measured(f"{name}, {count:,} rows, start included", shown, expected, _BENCHMARKS)
    session.measured("ddbload's throttled requests", f"{report['throttled']:,}", "", _BENCHMARKS)


def four_at_once(session: Session) -> None:
    """Start four executions into one table."""
    count, stack = session.size, session.stack
    runs = [f"four-{number}" for number in range(4)]
    sizes = [
        session.put(f"{run}.csv", rows(count, first=at * count))[1] for at, run in enumerate(runs)
    ]
    begun = time.monotonic()
    for run in runs:
        most = session.work.max_cost
        stack.execute(run, f"{run}.csv", session.bucket, session.tables["four"], max_cost=most)
    ended = [stack.ended(run, session.work.seconds) for run in runs]
    seconds = [each.at - begun for each in ended]
    for each, size, taken in zip(ended, sizes, seconds, strict=True):
        succeeded(each, count)
        session.charge({"bytes": size, "seconds": taken, "dollars": writes(count).dollars})
    items = session.count("four")
    require(items == 4 * count, f"four runs: {items:,} items of {4 * count:,}")
    session.measured("items of four runs", f"{items:,}", f"{4 * count:,}", "the files")
    rates = [count / taken for taken in seconds]
    share = sum(rates) ** 2 / (4 * sum(rate * rate for rate in rates))
    shown = f"{median(rates):,.0f} rows/s each with their start, Jain index {share:.2f}"
    session.on_aws(
        "rates", shown, "Jain index 0.98", _BENCHMARKS, "dynalite has no limits to share"
    )
