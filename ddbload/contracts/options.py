"""The options of a run: its mode, limits and settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from ddbload.contracts.messages import (
    INPUT,
    RUN,
    WRITING,
    JsonObjectReader,
    JsonRule,
    Message,
    option,
)
from ddbload.contracts.source import AUTO
from ddbload.dynamodb.modes import MODES, PUT, Condition, WriteMode, mode_of
from ddbload.errors import InvalidPayload
from ddbload.records import Record

write_option = partial(option, group=WRITING)
limit_option = partial(option, group=RUN)

ENGINES = SYNC, THREADS, ASYNC = ("sync", "threads", "async")
DEFAULT_CHUNK_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_ROW_BYTES = 16 * 1024 * 1024
EDGES_MAX_ROW_BYTES = 1024 * 1024
"""Default of `max_row_bytes` for a scan by edges, whose windows are that long."""
SCANS = WHOLE, EDGES = ("whole", "edges")
ON_EMPTY = KEEP, REMOVE = ("keep", "remove")
DEFAULT_MAX_REJECTS = 1000
LEAST_ROWS_OF_SHARE = 1000
"""Rows that a worker must have read before a share of rejects stops it."""
DEFAULT_CONCURRENCY = 16
MAX_CONCURRENCY = 256
MAX_WORKERS = 10_000
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", re.ASCII)


def parse_share(text: str) -> float | None:
    """Return the number of a text such as `50%`, from 0 to 100; None for other text."""
    found = _PERCENT.fullmatch(text)
    percent = float(found[1]) if found else 101.0
    return percent if percent <= 100 else None


def parse_percent(text: str) -> float | None:
    """Return the number of a text such as `50%`, from above 0 to 100; None for other text."""
    return parse_share(text) or None


class RejectLimit(Record):
    """Rows of a run that may be rejected: a number of them, or a share of those that are read."""

    rows: int
    percent: float | None = None

    def exceeded(self, rejected: int, read: int) -> bool:
        """Return whether a run that read so many rows has too many rejects."""
        if self.percent is None:
            return rejected > self.rows
        # Whole numbers: a share has up to six decimals.
        return rejected * 100 * 10**6 > round(self.percent * 10**6) * read

    def surely_exceeded(self, rejected: int, read: int, most_more: int | None) -> bool:
        """Return whether a run has too many rejects, whatever its other rows are.

        `most_more`: rows that the run may have besides; None if unknown. A share is not judged
        before so many rows were read that the limit is no matter of single rows.
        """
        if self.percent is not None and (most_more is None or read < LEAST_ROWS_OF_SHARE):
            return False
        return self.exceeded(rejected, read + (most_more or 0))

    def describe(self, rejected: int, read: int) -> str:
        """Name the limit beside a count: `12 of 100 rows were rejected, and max_rejects is 5%`."""
        were = "row was" if rejected == 1 else "rows were"
        if self.percent is None:
            return f"{rejected:,} {were} rejected, and max_rejects is {self.rows:,}"
        allowed = round(self.percent * 10**6) * read // (100 * 10**6)
        return (
            f"{rejected:,} of {read:,} {were} rejected ({100 * rejected / max(1, read):.3g}%), and"
            f" max_rejects is {self} ({allowed:,} of them)"
        )

    def __str__(self) -> str:
        """Return the limit as users write it."""
        if self.percent is None:
            return f"{self.rows:,}"
        return f"{self.percent:.6f}".rstrip("0").rstrip(".") + "%"


def _read_max_wcu(f: JsonObjectReader) -> float | None:
    given = f.raw("max_wcu")
    if isinstance(given, str):
        if parse_percent(given) is None:
            raise f.wrong("max_wcu", given, "a number, or a share of the table such as '50%'")
        return None
    units: float | None = f.optional("max_wcu", JsonObjectReader.number, None, 1)
    return units


def _read_max_rejects(f: JsonObjectReader) -> int:
    given = f.raw("max_rejects")
    if isinstance(given, str):
        if parse_share(given) is None:
            raise f.wrong("max_rejects", given, "a number of rows, or a share of them such as '5%'")
        return DEFAULT_MAX_REJECTS
    return f.whole("max_rejects", DEFAULT_MAX_REJECTS)


def _share(name: str) -> Callable[[JsonObjectReader], float | None]:
    """Make the reader of a share, which is given as text in the field of a number."""
    return lambda f: parse_share(given) if isinstance(given := f.raw(name), str) else None


def _read_workers(f: JsonObjectReader) -> int | None:
    if f.raw("workers") in (None, AUTO):
        return None
    try:
        return f.whole("workers", least=1, most=MAX_WORKERS)
    except InvalidPayload:
        wanted = f"a whole number from 1 to {MAX_WORKERS}, or '{AUTO}'"
        raise f.wrong("workers", f.raw("workers"), wanted) from None


def _positive(name: str) -> Callable[[JsonObjectReader], float | None]:
    """Make the reader of an optional number above 0."""

    def read(f: JsonObjectReader) -> float | None:
        value: float | None = f.optional(name, JsonObjectReader.number)
        if value == 0:
            raise f.wrong(name, value, "a number above 0")
        return value

    return read


class Options(Message):
    """Options of a run."""

    WRITTEN_BY_USERS = True

    mode: Annotated[str, JsonRule(choices=tuple(MODES))] = write_option(
        PUT.name,
        "put: write each row, replacing the item with its key. insert: skip rows whose key the"
        " table has. last-wins: keep the last row of each key, across runs. update: set the row's"
        " attributes and leave the item's others. delete: delete the listed keys.",
        metavar="MODE",
        choices=tuple(name for name, each in MODES.items() if each.writes),
        common=True,
        decisive=True,
    )
    on_empty: Annotated[str | None, JsonRule(choices=ON_EMPTY, sparse=True)] = write_option(
        None,
        "With update: keep the attribute of an empty field, or remove it from the item.",
        default_text=KEEP,
        decisive=True,
    )
    add: Annotated[tuple[str, ...], JsonRule(sparse=True)] = write_option(
        (),
        "With update: add to these sets (SS, NS, BS) instead of replacing them. May be repeated.",
        metavar="A,B,...",
        decisive=True,
    )
    only_existing: Annotated[bool, JsonRule(sparse=True)] = write_option(
        False, "With update: skip rows whose item the table does not have.", decisive=True
    )
    condition: Annotated[str | None, JsonRule(sparse=True)] = write_option(
        None,
        "With put, update and delete: skip rows for whose item this DynamoDB condition is false."
        " {column} is the row's value, #name an attribute whose name is a reserved word:"
        " 'attribute_not_exists(pk) OR #version < {version}'.",
        metavar="EXPR",
        decisive=True,
    )
    position_attribute: str | None = write_option(
        None,
        "With last-wins: attribute that stores each row's position.",
        metavar="NAME",
        decisive=True,
    )
    max_wcu: Annotated[float | None, JsonRule(read=_read_max_wcu)] = write_option(
        None,
        "Use at most N write capacity units a second, index writes included, or N percent of the"
        " table's capacity.",
        metavar="N|N%",
        default_text="as many as the table accepts",
        shared=True,
        common=True,
    )
    max_wcu_percent: Annotated[float | None, JsonRule(read=_share("max_wcu"))] = None
    """`max_wcu` as a share of the table's capacity. Preflight replaces it by a number, which the
    run's record keeps."""
    max_cost: Annotated[float | None, JsonRule(read=_positive("max_cost"), sparse=True)] = (
        write_option(
            None,
            "Stop before the write units of the run cost more.",
            metavar="DOLLARS",
            default_text="no limit",
            shared=True,
            common=True,
        )
    )
    unit_price: Annotated[float | None, JsonRule(read=_positive("unit_price"), sparse=True)] = (
        write_option(
            None,
            "Price of a million write units, for --max-cost and the report.",
            metavar="DOLLARS",
            default_text="us-east-1's list price",
            shared=True,
        )
    )
    require_backup: Annotated[bool, JsonRule(sparse=True)] = write_option(
        False, "Refuse a table without point-in-time recovery."
    )
    concurrency: Annotated[int, JsonRule(least=1, most=MAX_CONCURRENCY)] = write_option(
        DEFAULT_CONCURRENCY, "Requests in flight per process.", metavar="N", shared=True
    )
    engine: Annotated[str, JsonRule(choices=ENGINES)] = write_option(
        ASYNC,
        "HTTP engine. async needs the least CPU; sync sends one request at a time.",
        shared=True,
    )
    workers: Annotated[int | None, JsonRule(read=_read_workers)] = None
    """Workers that import at once; None for `auto`, by which preflight chooses a number."""
    chunk_bytes: Annotated[int, JsonRule(least=1)] = limit_option(
        DEFAULT_CHUNK_BYTES,
        "Most bytes of a chunk; raised if there would be more than 20,000. Sources that can be"
        " read from any byte are cut smaller: into 32 chunks for each worker, of at least 64 KiB.",
        metavar="N",
    )
    scan: Annotated[str, JsonRule(choices=(AUTO, *SCANS), sparse=True)] = limit_option(
        AUTO,
        "Before the first write, read all of the source (whole), or only windows around the places"
        " where it is cut (edges). With edges, rows may be written before a broken row is found;"
        " the run fails all the same. auto reads sources up to 2 GiB as a whole.",
    )
    max_rejects: Annotated[int, JsonRule(read=_read_max_rejects)] = limit_option(
        DEFAULT_MAX_REJECTS,
        "Fail when more than N rows are rejected, or more than N percent of all rows.",
        metavar="N|N%",
        shared=True,
        common=True,
    )
    max_rejects_percent: Annotated[float | None, JsonRule(read=_share("max_rejects"))] = None
    """`max_rejects` as a share of the rows that the run reads."""
    max_row_bytes: Annotated[int | None, JsonRule(least=1)] = option(
        None,
        "Fail at a row longer than N bytes; usually a quote is not closed.",
        group=INPUT,
        metavar="N",
        default_text="16777216; 1048576 with --scan edges",
    )

    @property
    def write_mode(self) -> WriteMode:
        """The value of `mode`."""
        return mode_of(self.mode)

    @property
    def reject_limit(self) -> RejectLimit:
        """Rows that may be rejected."""
        return RejectLimit(self.max_rejects, self.max_rejects_percent)

    @property
    def row_limit(self) -> int:
        """Bytes of the longest allowed row."""
        if self.max_row_bytes is not None:
            return self.max_row_bytes
        return EDGES_MAX_ROW_BYTES if self.scan == EDGES else DEFAULT_MAX_ROW_BYTES

    def to_json(self) -> dict[str, Any]:
        value = Message.to_json(self)
        percent = value.pop("max_wcu_percent")
        if percent is not None:
            value["max_wcu"] = f"{percent:g}%"
        if value.pop("max_rejects_percent") is not None:
            value["max_rejects"] = str(self.reject_limit)
        value["workers"] = self.workers or AUTO
        return value

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for options that are missing, or that the mode does not have."""
        chosen = self.write_mode
        if chosen.keeps_position and self.position_attribute is None:
            raise InvalidPayload(
                f"{f.path('position_attribute')!r} is missing: mode {self.mode} stores each row's"
                " position in this attribute; name one that nothing else uses"
            )
        for name in _MODE_OPTIONS:
            if getattr(self, name) in (None, False, ()) or name in chosen.options:
                continue
            modes = ", ".join(each.name for each in MODES.values() if name in each.options)
            hint = chosen.own_condition if name == "condition" else ""
            raise InvalidPayload(
                f"{f.path(name)!r} is for mode {modes}, and the mode is {self.mode}{hint}"
            )
        if self.condition is not None:
            try:
                Condition.read(self.condition)
            except InvalidPayload as error:
                raise InvalidPayload(f"{f.path('condition')!r} {error.message}") from None


_MODE_OPTIONS = ("position_attribute", "on_empty", "add", "only_existing", "condition")
"""Options that only some modes have."""
