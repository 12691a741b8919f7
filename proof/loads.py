"""Parts that load files: figures of runs, their rows, and their rates."""

from __future__ import annotations

import json
import sys
import time

from ddbload.dynamodb.limits import NEW_TABLE_RATE
from ddbload.planning.price import writes
from proof.account import require
from proof.deployment import run_command
from proof.session import RUN_SECONDS, Session, median, require_rows, rows

WCU, RCU = 500, 25
"""Capacity units of the provisioned table."""
SLOW = 60
"""Write units a second of runs that are to be interrupted."""
_SLOWLY = ("--max-wcu", str(SLOW), "--workers", "1", "--detach")
_BAD_EVERY = 1000


def load_csv(session: Session) -> None:
    """Load a large file, of which each thousandth row has a field too many."""
    count = session.size
    bad = count // _BAD_EVERY
    lines = (
        f"{row.rstrip()},odd\n" if number % _BAD_EVERY == 0 else row
        for number, row in enumerate(rows(count), 1)
    )
    source, _ = session.put("csv.csv", lines)
    # Near their limit workers wait for their share of it, so that the last rows would be slow.
    dollars = session.work.max_cost + session.work.fixed
    limits = ("--max-rejects", str(bad), "--max-cost", f"{dollars:.6f}")
    report = session.load("csv", source, "csv", *limits)
    found, items = report["rows"], session.count("csv")
    shown = f"{items:,} items, {found['rejected']:,} rejects of {found['read']:,} rows"
    due = f"{count - bad:,} items, {bad:,} rejects of {count:,} rows"
    require(shown == due, f"{report['status']}: {shown}, not {due}")
    session.figure("items and rejects", shown, due)
    rate = f"{report['rows_per_second']:,.0f} rows/s in {report['seconds']:,.1f} s"
    session.figure("rate", rate, f"{NEW_TABLE_RATE:,}")
    expected = f"{writes(count - bad).dollars:.4f}"
    session.figure("dollars of consumed write units", f"${report['dollars']:.4f}", expected)


def insert_twice(session: Session) -> None:
    """Load a file by mode `insert`, and again."""
    count = session.size
    source, _ = session.put("insert.csv", rows(count))
    for run, written in (("first", count), ("again", 0)):
        report = session.load(f"insert-{run}", source, "insert", "--mode", "insert")
        identical = report.get("identical") or 0
        shown = f"{report['rows']['written']:,} written, {identical:,} skipped as identical"
        due = f"{written:,} written, {count - written:,} skipped as identical"
        require(shown == due, f"{run}: {report['status']}: {shown}, not {due}")
        session.figure(run, f"{shown}, {report['seconds']:.1f} s", f"{count:,}")


def last_wins(session: Session) -> None:
    """Load a file in which each key comes twice."""
    count = session.size
    both = (row for text in ("old", "new") for row in rows(count, text=text))
    source, _ = session.put("order.csv", both)
    options = ("--mode", "last-wins", "--position-attribute", "at")
    report = session.load("order", source, "order", *options)
    later = session.count("order", "new")
    require(later == session.count("order") == count, f"{later:,} later rows of {count:,}")
    session.figure("items of the later row", f"{later:,}, {report['seconds']:.1f} s", f"{count:,}")


def limit_and_cancel(session: Session) -> None:
    """Lower the limit of a run, and cancel it."""
    source, size = session.put("slow.csv", rows(session.size))
    begun, stack, lower = time.monotonic(), session.stack, SLOW // 4
    stack.start("slow", source, session.tables["slow"], *_SLOWLY)
    session.account.until(lambda: session.count("slow"), "the first item", RUN_SECONDS)
    stack.ddbload("limit", "slow", "--max-wcu", str(lower))
    # Workers obey within 5 seconds, and have requests in flight.
    time.sleep(6)
    before, at = session.count("slow"), time.monotonic()
    time.sleep(6)
    rate = (session.count("slow") - before) / (time.monotonic() - at)
    require(rate < SLOW / 2, f"the limit is {lower} units/s, and the run wrote {rate:.1f}")
    session.figure("limit", f"from {SLOW} to {rate:.1f} units/s after 6 s", lower)

    asked = time.monotonic()
    cancelled = stack.ddbload("cancel", "slow")
    taken, left = time.monotonic() - asked, session.count("slow")
    session.account.pause(5)
    ended = (cancelled["status"], cancelled["silent"], session.count("slow") - left)
    require(ended == ("CANCELLED", [], 0), f"status, silent workers, rows afterwards: {ended}")
    session.figure("cancel", f"{taken:.1f} s, no row afterwards")
    session.charge(size, time.monotonic() - begun, writes(left).dollars)


def stop_and_resume(session: Session) -> None:
    """Stop an execution as the console does, and resume its run."""
    count, stack = session.size, session.stack
    source, _ = session.put("stop.csv", rows(count))
    stack.start("stop", source, session.tables["stop"], *_SLOWLY)
    session.account.until(lambda: session.count("stop"), "the first item", RUN_SECONDS)
    asked = time.monotonic()
    stack.account.client("stepfunctions").stop_execution(executionArn=stack.execution("stop"))
    ended = stack.ended("stop", RUN_SECONDS)
    require(ended.status == "CANCELLED", f"the stopped run is {ended.status}")
    session.figure("from the stop to the event CANCELLED", f"{ended.at - asked:.1f} s")
    report = stack.ddbload("resume", "stop", "--max-wcu", "none", seconds=session.work.seconds)
    session.charge(report["bytes"], report["seconds"], report["dollars"])
    found = (report["status"], report["rows"]["read"], session.count("stop"))
    require(found == ("SUCCEEDED", count, count), f"status, rows, items: {found} of {count:,}")
    session.figure("resumed", f"{count:,} items, no row counted twice", f"{count:,}")


def beside_boto3(session: Session) -> None:
    """Load a provisioned table by ddbload, then by boto3's batch writer with adaptive retries.

    One after the other, so that neither finds capacity that was saved meanwhile.
    """
    count = session.size
    source, _ = session.put("limited.csv", rows(count))
    session.tables["limited"] = session.maker.table("limited", units=(RCU, WCU))
    report = session.load("limited", source, "limited")
    path = session.folder / "boto3.csv"
    path.write_text("id,text\n" + "".join(rows(count, first=count)), "utf-8")
    settings = {"columns": {"id": "S", "text": "S"}, "delimiter": ",", "header": True}
    settings |= {"concurrency": 8, "checks": True}
    words = [sys.executable, "-m", "bench.rivals.adaptive", str(path), session.tables["limited"]]
    begun = time.monotonic()
    status, _, err = run_command([*words, json.dumps(settings)], seconds=session.work.seconds)
    require(status == 0, f"boto3's writer failed: {err.strip()[-200:]}")
    items = session.count("limited")
    require(items == 2 * count, f"{items:,} items of {2 * count:,}")
    rates = {"ddbload": report["rows_per_second"]}
    rates["boto3, adaptive"] = count / (time.monotonic() - begun)
    for name, rate in rates.items():
        session.figure(name, f"{rate:,.0f} rows/s, {rate / WCU:.1%}, start included", f"{WCU} WCU")


def four_at_once(session: Session) -> None:
    """Start four executions into one table."""
    count, stack, table = session.size, session.stack, session.tables["four"]
    runs = [f"four-{number}" for number in range(4)]
    for at, run in enumerate(runs):
        session.put(run, rows(count, first=at * count))
    begun = time.monotonic()
    for run in runs:
        stack.execute(run, session.bucket, table)
    ended = [stack.ended(run, session.work.seconds) for run in runs]
    seconds = [each.at - begun for each in ended]
    for each, taken in zip(ended, seconds, strict=True):
        require_rows(each, count)
        session.charge(count * 100, taken, writes(count).dollars)
    items = session.count("four")
    require(items == 4 * count, f"{items:,} items of {4 * count:,}")
    session.figure("items", f"{items:,}", f"{4 * count:,}")
    rates = [count / taken for taken in seconds]
    share = sum(rates) ** 2 / (4 * sum(rate * rate for rate in rates))
    session.figure("rates", f"{median(rates):,.0f} rows/s each with start, Jain index {share:.2f}")
