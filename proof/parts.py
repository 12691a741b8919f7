"""The parts of the proof in their order: what each does, its sizes, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddbload.contracts import run_record as prices
from proof import loads, service
from proof.budget import STANDING, Work
from proof.session import Session

_HOUR = loads.WCU * prices.CAPACITY_HOUR + 25 * prices.CAPACITY_HOUR / 5
"""Dollars for an hour of the provisioned table; a read unit costs a fifth of a write unit."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the proof."""

    name: str
    text: str
    """What it does; `{}` is its size."""
    work: Callable[[int], Work]
    """Work of a size, at most."""
    measure: Callable[[Session], None]
    least: int = 1
    most: int = 1
    not_emulated: str | None = None
    """Why the emulation cannot measure it, if it cannot."""

    def size(self, scale: float) -> int:
        """Return the size at a scale from 0 to 1."""
        return max(self.least, round(self.most * scale))

    def dollars(self, scale: float) -> float:
        return self.work(self.size(scale)).dollars


PARTS: Sequence[Part] = (
    Part(
        "deploy",
        "tables, a bucket, a queue, bootstrapping and stack, and the first run by an upload",
        lambda _: Work(30, 1, fixed=STANDING),
        service.deploy,
    ),
    Part(
        "uploads",
        "{} tiny uploads: time to the event, transitions, dollars",
        lambda size: Work(size, 1),
        service.tiny_uploads,
        least=3,
        most=10,
    ),
    Part(
        "csv",
        "a CSV of {} rows of 100 bytes, with rejects",
        lambda size: Work(1, size, 450, workers=4),
        loads.load_csv,
        least=2000,
        most=1_000_000,
    ),
    Part(
        "insert",
        "{} rows by mode insert, twice",
        lambda size: Work(2, size, 300),
        loads.insert_twice,
        least=500,
        most=40_000,
    ),
    Part(
        "last-wins",
        "{} keys that come twice, by mode last-wins",
        lambda size: Work(1, 2 * size, 300),
        loads.last_wins,
        least=500,
        most=25_000,
    ),
    Part(
        "cancel",
        "`limit` and `cancel` of a run that writes 60 units a second",
        lambda size: Work(1, size, 300),
        loads.limit_and_cancel,
        least=6000,
        most=6000,
    ),
    Part(
        "stop",
        "an execution that is stopped as in the console, and `resume`",
        lambda size: Work(2, size, 300),
        loads.stop_and_resume,
        least=1000,
        most=5000,
    ),
    Part(
        "redrive",
        "a dead letter of the upload queue, moved back",
        lambda _: Work(1, 1, 300),
        service.redrive,
    ),
    Part(
        "500-wcu",
        "{} rows into a table of 500 WCU, by ddbload and by boto3's adaptive writer",
        lambda size: Work(1, 2 * size, 600, fixed=_HOUR),
        loads.beside_boto3,
        least=5000,
        most=20_000,
        not_emulated="dynalite does not throttle",
    ),
    Part(
        "four",
        "four runs at once, of {} rows each",
        lambda size: Work(4, size, 300),
        loads.four_at_once,
        least=500,
        most=25_000,
    ),
    Part(
        "burst",
        "{} uploads in a minute",
        lambda size: Work(size, 1, 0),
        service.burst,
        least=10,
        most=500,
    ),
    Part(
        "permissions",
        "runs that lack a permission",
        lambda _: Work(20, 10),
        service.permissions,
    ),
    Part(
        "cold-starts",
        "cold starts as billed, from the logs",
        lambda _: Work(),
        service.cold_starts,
        not_emulated="its functions are processes of this machine, and nothing is billed",
    ),
    Part(
        "log-key",
        "log groups encrypted by `log_key`",
        lambda _: Work(),
        service.log_key,
        not_emulated="moto keeps the key's name and encrypts nothing",
    ),
    Part("destroy", "`ddbload destroy`", lambda _: Work(), service.destroy),
)
ALWAYS = ("deploy", "destroy")
"""Parts without which no other can run."""


def chosen(names: Sequence[str]) -> list[Part]:
    """Return the parts of these names, and those that are always needed; all without names."""
    wanted = {*names, *ALWAYS} if names else {part.name for part in PARTS}
    return [part for part in PARTS if part.name in wanted]
