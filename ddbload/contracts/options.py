"""The options of a run: its mode, limits and settings."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from ddbload.contracts.messages import JsonObjectReader, JsonRule, Message
from ddbload.contracts.source import AUTO
from ddbload.contracts.write_price import GIVEN, GIVEN_SOURCES
from ddbload.dynamodb.write_modes import LAST_WINS, MODES, PUT
from ddbload.errors import InvalidPayload

ENGINES = SYNC, THREADS, ASYNC = ("sync", "threads", "async")
DEFAULT_CHUNK_BYTES = 16 * 1024 * 1024
DEFAULT_INDEX_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_ROW_BYTES = 16 * 1024 * 1024
EDGES_MAX_ROW_BYTES = 1024 * 1024
"""Default of `max_row_bytes` for a scan by edges, whose windows are that long."""
SCANS = WHOLE, EDGES = ("whole", "edges")
DEFAULT_MAX_REJECTS = 1000
DEFAULT_CONCURRENCY = 16
MAX_CONCURRENCY = 256
MAX_WORKERS = 10_000
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", re.ASCII)


def parse_percent(text: str) -> float | None:
    """Return the number of a text such as `50%`, from above 0 to 100; None for other text."""
    found = _PERCENT.fullmatch(text)
    percent = float(found[1]) if found else 0.0
    return percent if 0 < percent <= 100 else None


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


def _positive(f: JsonObjectReader, name: str) -> float | None:
    value = f.optional_number(name)
    if value == 0:
        raise f.wrong(name, value, "a number above 0")
    return value


@dataclass(frozen=True, slots=True)
class Options(Message):
    """Limits and settings of a run. Only the first two determine what the items are."""

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
    max_rejects: int = DEFAULT_MAX_REJECTS
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
    unit_price_source: Annotated[str, JsonRule(choices=GIVEN_SOURCES)] = GIVEN
    """Origin of `unit_price`: its user, or AWS's price list, in which the command looked it up."""
    require_backup: bool = False
    """Refuse a table without point-in-time recovery."""
    index_bytes: int = DEFAULT_INDEX_BYTES
    """Size above which a compressed object is cut into chunks, if it can be and there are fewer
    objects than workers."""
    scan: Annotated[str, JsonRule(choices=(AUTO, *SCANS))] = AUTO
    """`whole` has preflight read every byte, `edges` only windows around the places where it cuts.
    `auto` chooses by size; the record of a run that reads everything keeps it."""

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
        value["workers"] = AUTO if self.workers is None else self.workers
        # Later options are left out if unset, so that earlier versions can read the message.
        unset = Options()
        later = ("max_cost", "unit_price", "unit_price_source", "require_backup", "index_bytes")
        for name in (*later, "scan"):
            if value[name] == getattr(unset, name):
                del value[name]
        return value

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` unless exactly mode `last-wins` has a position attribute."""
        name = f.path("position_attribute")
        if self.mode == LAST_WINS and self.position_attribute is None:
            raise InvalidPayload(
                f"{name!r} is missing: mode {LAST_WINS} stores each row's position in this"
                " attribute; name one that nothing else uses"
            )
        if self.mode != LAST_WINS and self.position_attribute is not None:
            raise InvalidPayload(f"{name!r} is for mode {LAST_WINS}, and the mode is {self.mode}")
