"""The options of a run: its mode, limits and settings."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from ddbload.contracts.messages import JsonObjectReader, JsonRule, Message
from ddbload.contracts.source import AUTO
from ddbload.dynamodb.write_modes import DELETE, LAST_WINS, MODES, PUT, UPDATE
from ddbload.errors import InvalidPayload

ENGINES = SYNC, THREADS, ASYNC = ("sync", "threads", "async")
DEFAULT_CHUNK_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_ROW_BYTES = 16 * 1024 * 1024
EDGES_MAX_ROW_BYTES = 1024 * 1024
"""Default of `max_row_bytes` for a scan by edges, whose windows are that long."""
SCANS = WHOLE, EDGES = ("whole", "edges")
ON_EMPTY = KEEP, REMOVE = ("keep", "remove")
CONDITION_MODES = (PUT, UPDATE, DELETE)
"""Modes in which users may give a condition; `insert` and `last-wins` have their own."""
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


@dataclass(frozen=True, slots=True)
class RejectLimit:
    """Rows of a run that may be rejected: a number of them, or a share of those that are read."""

    rows: int
    percent: float | None = None

    def exceeded(self, rejected: int, read: int) -> bool:
        """Tell whether a run that read so many rows has too many rejects."""
        if self.percent is None:
            return rejected > self.rows
        # Whole numbers: a share has up to six decimals.
        return rejected * 100 * 10**6 > round(self.percent * 10**6) * read

    def surely_exceeded(self, rejected: int, read: int, most_more: int | None) -> bool:
        """Tell whether a run has too many rejects, whatever its other rows are.

        `most_more`: rows that the run may have besides; None if unknown. A share is not judged
        before so many rows were read that the limit is no matter of single rows.
        """
        if self.percent is None:
            return rejected > self.rows
        if most_more is None or read < LEAST_ROWS_OF_SHARE:
            return False
        return self.exceeded(rejected, read + most_more)

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
    return f.optional_number("max_wcu", least=1)


def _read_max_wcu_percent(f: JsonObjectReader) -> float | None:
    given = f.raw("max_wcu")
    return parse_percent(given) if isinstance(given, str) else None


def _read_max_rejects(f: JsonObjectReader) -> int:
    given = f.raw("max_rejects")
    if isinstance(given, str):
        if parse_share(given) is None:
            raise f.wrong("max_rejects", given, "a number of rows, or a share of them such as '5%'")
        return DEFAULT_MAX_REJECTS
    return f.whole("max_rejects", DEFAULT_MAX_REJECTS)


def _read_max_rejects_percent(f: JsonObjectReader) -> float | None:
    given = f.raw("max_rejects")
    return parse_share(given) if isinstance(given, str) else None


def _read_workers(f: JsonObjectReader) -> int | None:
    if f.raw("workers") in (None, AUTO):
        return None
    try:
        return f.whole("workers", least=1, most=MAX_WORKERS)
    except InvalidPayload:
        wanted = f"a whole number from 1 to {MAX_WORKERS}, or '{AUTO}'"
        raise f.wrong("workers", f.raw("workers"), wanted) from None


def _read_max_cost(f: JsonObjectReader) -> float | None:
    return _positive(f, "max_cost")


def _read_unit_price(f: JsonObjectReader) -> float | None:
    return _positive(f, "unit_price")


def _read_on_empty(f: JsonObjectReader) -> str | None:
    return None if f.raw("on_empty") is None else f.choice("on_empty", ON_EMPTY)


def _positive(f: JsonObjectReader, name: str) -> float | None:
    value = f.optional_number(name)
    if value == 0:
        raise f.wrong(name, value, "a number above 0")
    return value


@dataclass(frozen=True, slots=True)
class Options(Message):
    """Limits and settings of a run. Only the first two and the last four determine the items."""

    WRITTEN_BY_USERS = True

    mode: Annotated[str, JsonRule(choices=MODES)] = PUT
    position_attribute: str | None = None
    """Attribute in which mode `last-wins` stores each row's position; None in other modes."""
    engine: Annotated[str, JsonRule(choices=ENGINES)] = ASYNC
    workers: Annotated[int | None, JsonRule(read=_read_workers)] = None
    """Chunks that are imported at once; None for `auto`, by which preflight chooses a number."""
    concurrency: Annotated[int, JsonRule(least=1, most=MAX_CONCURRENCY)] = DEFAULT_CONCURRENCY
    chunk_bytes: Annotated[int, JsonRule(least=1)] = DEFAULT_CHUNK_BYTES
    max_wcu: Annotated[float | None, JsonRule(read=_read_max_wcu)] = None
    """Write units a second of all workers together; None without a limit."""
    max_rejects: Annotated[int, JsonRule(read=_read_max_rejects)] = DEFAULT_MAX_REJECTS
    max_row_bytes: Annotated[int | None, JsonRule(least=1)] = None
    """Bytes of the longest allowed row; None for the default, which preflight replaces by a
    number. See `row_limit`."""
    max_wcu_percent: Annotated[float | None, JsonRule(read=_read_max_wcu_percent)] = None
    """`max_wcu` as a share of the table's capacity. Preflight replaces it by a number, which the
    run's record keeps."""
    max_cost: Annotated[float | None, JsonRule(read=_read_max_cost)] = None
    """Dollars of write units of the whole run; None without a limit."""
    unit_price: Annotated[float | None, JsonRule(read=_read_unit_price)] = None
    """Dollars for a million write units; None for the list price."""
    max_rejects_percent: Annotated[float | None, JsonRule(read=_read_max_rejects_percent)] = None
    """`max_rejects` as a share of the rows that the run reads."""
    require_backup: bool = False
    """Refuse a table without point-in-time recovery."""
    scan: Annotated[str, JsonRule(choices=(AUTO, *SCANS))] = AUTO
    """`whole` has preflight read every byte, `edges` only windows around the places where it cuts.
    `auto` chooses by size; the record of a run that reads everything keeps it."""
    on_empty: Annotated[str | None, JsonRule(read=_read_on_empty)] = None
    """In mode `update`: what becomes of an attribute for which the row has no value. None for
    `keep`."""
    add: tuple[str, ...] = ()
    """Attributes whose sets mode `update` adds to."""
    only_existing: bool = False
    """In mode `update`: skip rows whose item is not in the table."""
    condition: str | None = None
    """Condition on the item in the table; rows for which it is false are skipped."""

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
        value = asdict(self)
        percent = value.pop("max_wcu_percent")
        if percent is not None:
            value["max_wcu"] = f"{percent:g}%"
        if value.pop("max_rejects_percent") is not None:
            value["max_rejects"] = str(self.reject_limit)
        value["workers"] = AUTO if self.workers is None else self.workers
        # Later options are left out if unset, so that earlier versions can read the message.
        unset = Options()
        later = ("max_cost", "unit_price", "require_backup")
        for name in (*later, "scan", *_WRITING):
            if value[name] == getattr(unset, name):
                del value[name]
        if "add" in value:
            value["add"] = list(self.add)
        return value

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for options that are missing, or that the mode does not have."""
        name = f.path("position_attribute")
        if self.mode == LAST_WINS and self.position_attribute is None:
            raise InvalidPayload(
                f"{name!r} is missing: mode {LAST_WINS} stores each row's position in this"
                " attribute; name one that nothing else uses"
            )
        if self.mode != LAST_WINS and self.position_attribute is not None:
            raise InvalidPayload(f"{name!r} is for mode {LAST_WINS}, and the mode is {self.mode}")
        for option, unset in _WRITING.items():
            modes = CONDITION_MODES if option == "condition" else (UPDATE,)
            if getattr(self, option) != unset and self.mode not in modes:
                hint = _OWN_CONDITION.get(self.mode, "") if option == "condition" else ""
                raise InvalidPayload(
                    f"{f.path(option)!r} is for mode {', '.join(modes)}, and the mode is"
                    f" {self.mode}{hint}"
                )
        if self.condition is not None:
            # Imported here: most runs have no condition.
            from ddbload.dynamodb.row_writes import Condition

            try:
                Condition.read(self.condition)
            except InvalidPayload as error:
                raise InvalidPayload(f"{f.path('condition')!r} {error.message}") from None


_WRITING: dict[str, Any] = {"on_empty": None, "add": (), "only_existing": False, "condition": None}
"""Options of a mode's requests, with the values that mean nothing is asked for."""
_OWN_CONDITION = {
    "insert": ", which has a condition of its own: with mode put, write attribute_not_exists(key)"
    " AND yours",
    "last-wins": ", which has a condition of its own",
}
