"""Describe the progress of a run in words."""

from __future__ import annotations

from ddbload.contracts.write_price import amount_text
from ddbload.runs.progress import CHECKING, IMPORTING, RunProgress

_USUAL_OUTCOMES = ("written", "superseded", "skipped")
"""Outcomes that progress does not count apart."""


def progress_line(progress: RunProgress | None) -> str:
    """Describe progress in one line."""
    if progress is None or not progress.size or not len(progress.chunks):
        return CHECKING
    words, failed = progress_figures(progress), progress.chunks.failed
    words += [f"{failed:,} chunk{'s' * (failed > 1)} failed"] if failed else []
    if progress.seconds_left is not None and progress.step == IMPORTING:
        words.append(f"about {short_duration(progress.seconds_left)} left")
    step = "" if progress.step == IMPORTING else f"{progress.step}, "
    return f"{step}{percent(progress)} {', '.join(words)}"


def percent(progress: RunProgress) -> str:
    """Return the share of the bytes that are done; 100 % only if nothing is left."""
    return f"{int(100 * progress.share)} %"


def progress_figures(progress: RunProgress) -> list[str]:
    """Return rows, rates, and what else is known and not zero, each in words."""
    rows, work = progress.totals.rows, progress.totals.work
    words = [f"{rows.read:,} rows"]
    if progress.rows_per_second is not None:
        words.append(f"{progress.rows_per_second:,.0f} rows/s")
    if work.consumed_wcu:
        rate = progress.wcu_per_second
        words.append(f"{work.consumed_wcu:,.0f} WCU" if rate is None else f"{rate:,.0f} WCU/s")
    words += [f"{work.throttled:,} throttled"] if work.throttled else []
    words += [
        f"{count:,} {name}"
        for name, count in rows.outcomes.items()
        if count and name not in _USUAL_OUTCOMES
    ]
    if progress.dollars is not None:
        words.append(amount_text(progress.dollars))
    return words


def short_duration(seconds: float) -> str:
    """Return a duration, rounded: `40 s`, `12 min`, `3.5 h`, `4 days`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{round(seconds / 86400)} days"
