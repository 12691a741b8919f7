"""The record of a run, `run.json`, the input that resumes one, and the price of its writes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from ddbload.contracts.messages import SPARSE, CountedLine, JsonObjectReader, JsonRule, Message
from ddbload.contracts.options import EDGES, Options
from ddbload.contracts.payload import Payload, check_run_id
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.modes import WriteMode, mode_of
from ddbload.errors import InvalidPayload
from ddbload.records import Record

LEDGER_VERSION = 3
"""Version of the ledgers that are written and read; others are refused."""

INDEX_BYTES = 16 * 1024 * 1024
"""Size above which a compressed object is cut, if there are fewer objects than workers."""
INDEX_ONE_OF_SEVERAL_BYTES = 256 * 1024 * 1024
"""Compressed size above which one of several objects is cut where preflight does not read all."""


class Cursor(Message):
    """Byte offset and line of the first row that is not settled.

    In a chunk whose first line is not known, `line` counts the line ends from the chunk's start.
    """

    byte: int
    line: CountedLine


_FIXED_BY_RECORD = ("source", "target", "types", "infer_types", "mapping", "nulls", "where")


class Resume(Record):
    """Input of an execution that resumes an earlier run, whose record says what to load."""

    run: str
    options: Mapping[str, Any]
    """Options that replace those of the earlier run."""

    @classmethod
    def from_input(cls, value: object) -> Self | None:
        """Read the input; return None if it names no earlier run. Raises `InvalidPayload`."""
        run = value.get("run") if isinstance(value, Mapping) else None
        if not isinstance(run, Mapping) or run.get("resume_of") is None:
            return None
        with JsonObjectReader(value) as f:
            with f.nested("run") as fields_of_run:
                earlier = check_run_id(fields_of_run.text("resume_of"))
                given = fields_of_run.optional("id", JsonObjectReader.text)
                for name in ("force", "once"):
                    if fields_of_run.raw(name) not in (None, False):
                        raise InvalidPayload(
                            f"{fields_of_run.path(name)!r} cannot be given with 'run.resume_of',"
                            " which imports what the earlier run has not; start a new run"
                        )
            more = [name for name in _FIXED_BY_RECORD if f.raw(name)]
            if more or given not in (None, earlier):
                named = repr(more[0] if more else "run.id")
                raise InvalidPayload(
                    f"{named} cannot be given with 'run.resume_of': the earlier run says what to"
                    " load, under its own id; only 'options' may differ"
                )
            options = f.mapping("options") if f.has("options") else f.raw("options") or {}
            return cls(earlier, options)

    def payload(self, record: RunRecord) -> Payload:
        """Make the payload: the pinned version of the run's source, with the new options."""
        earlier, pinned = record.payload, record.pinned
        options = Options.from_json({**earlier.options.to_json(), **self.options})
        source = earlier.source
        if source.key is not None:
            source = replace(source, version_id=pinned.get("version_id"), etag=pinned.get("etag"))
        elif source.path is not None and record.objects is None:
            # The path may have been given relative to another folder.
            source = replace(source, path=str(pinned["path"]))
        return replace(earlier, source=source, options=options, once=False, force=False)


class KeyAttribute(Message):
    """A key attribute of the table or of one of its indexes."""

    name: str
    type: str
    max_bytes: Annotated[int, JsonRule(least=1)]
    """DynamoDB's limit for the size of this key."""


class Table(Message):
    """The table as DescribeTable showed it when the run began."""

    name: str
    id: str
    """TableId, which a table created later under the same name does not share."""
    keys: tuple[KeyAttribute, ...]
    """Partition key, then the sort key if the table has one."""
    index_keys: tuple[KeyAttribute, ...] = ()


class LoadedBefore(Message):
    """Objects that a run leaves out, since the same was loaded of them; and one run that did."""

    objects: int
    """Number of objects that are left out."""
    runs: int
    """Number of runs that loaded them."""
    run: str
    """One of these: the last one that rejected rows, or else the last one."""
    mode: str
    status: str
    """SUCCEEDED or SUCCEEDED_WITH_REJECTS."""
    at: float
    """Seconds since the epoch at which that run was done."""
    written: int
    """Rows that it wrote."""
    rejected: int
    """Rows that it rejected."""

    @property
    def text(self) -> str:
        """Say how many objects were loaded before, by which run, and what became of its rows."""
        at = datetime.fromtimestamp(self.at, UTC)
        others = self.runs - 1
        more = f" and {others:,} other{'s' * (others > 1)}" if others else ""
        rejected = f", {self.rejected:,} rejected" if self.rejected else ""
        return (
            f"{self.objects:,} object{'s' * (self.objects != 1)}, by run {self.run} at"
            f" {at:%Y-%m-%dT%H:%M:%SZ}{more} ({self.written:,}"
            f" row{'s' * (self.written != 1)} {mode_of(self.mode).written}{rejected})"
        )


class RunRecord(Message):
    """`run.json`: everything that the workers of a run share."""

    PATH = "run"

    run: str
    payload: Payload
    pinned: Mapping[str, Any]
    """Version of the source, by which a change is noticed."""
    size: int | None
    """Bytes to read; None if unknown before reading."""
    data_start: Cursor
    """Position of the first row, after the byte order mark and the header. Offsets in several
    objects count rows only, and so begin at 0."""
    columns: tuple[str, ...]
    """Column names of delimited text; empty for other formats."""
    types: tuple[str, ...]
    """Type of each attribute that is made from the columns, key attributes included."""
    table: Table
    chunk_bytes: Annotated[int, JsonRule(least=1)]
    """Bytes of a chunk: the option, or more, since a run has at most 20,000 chunks."""
    workers: Annotated[int, JsonRule(least=1)]
    """Number of chunks that are imported at once."""
    created: float
    """Seconds since the epoch."""
    asked: str
    """Hash of what was asked that determines rows, before anything was detected."""
    objects: int | None = None
    """Number of objects; None if the source names a single one."""
    loaded_before: LoadedBefore | None = None
    """Objects that the run leaves out, because the table has loaded them."""
    listing: str | None = None
    """Name of the list of objects in the ledger."""
    most_workers: Annotated[int | None, JsonRule(least=1)] = None
    """Most workers that the payload, or for `auto` the table, and the account allow. `workers` is
    lower if there are fewer chunks."""
    write_price: WritePrice | None = None
    capacity: Annotated[float | None, SPARSE] = None
    """Write units a second that the table takes, as far as its description says."""
    """Price by which the run's write units become dollars."""
    padded: Annotated[bool, SPARSE] = False
    """True if preflight did not read some objects, so that their size is known once imported. Their
    rows have a range of bytes as long as they may be, and `size` stays None."""
    hmac_key: Annotated[str | None, SPARSE] = None
    """Fingerprint of the key that the mapping's templates use; None without such a template."""
    look_like_numbers: Annotated[tuple[str, ...], SPARSE] = ()
    """Attributes that look like numbers and become strings, since nothing gives them a type."""

    @property
    def public_names(self) -> frozenset[str]:
        """Names of columns and attributes from the run's input, its table or the file's header.

        The name of another attribute is a part of its row, and shown only with rows.
        """
        keys = (key.name for key in (*self.table.keys, *self.table.index_keys))
        mapping = self.payload.mapping
        renamed = (*mapping.rename.values(), *mapping.set)
        return frozenset((*self.columns, *keys, *self.payload.types, *renamed))

    @property
    def cell_types(self) -> tuple[str, ...]:
        """`types`, with the form in which cells are written."""
        return tuple(map(self.payload.source.cell_type, self.types))

    @property
    def configuration(self) -> str:
        """SHA-256 of everything that determines the items, in hexadecimal."""
        source = self.payload.source
        decisive: dict[str, Any] = {
            "asked": self.asked,
            "source": dict(self.pinned),
            "table": self.table.id,
            "columns": list(self.columns),
            "types": list(self.types),
            # Where these were not asked for, they were detected.
            "format": source.format,
            "layout": source.layout,
            "delimiter": source.delimiter,
            "encoding": source.encoding,
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    @property
    def loads_nothing(self) -> bool:
        """True if the table had loaded every object before, and the run shall load each once."""
        return self.loaded_before is not None and not self.objects

    @property
    def mode(self) -> WriteMode:
        """Write mode of the run."""
        return self.payload.options.write_mode

    @property
    def has_rows(self) -> bool:
        """False for delimited text without rows: it has no columns."""
        return bool(self.columns) or not self.payload.source.kind.has_columns

    def most_rows_besides(self, read_bytes: int) -> int | None:
        """Return how many valid rows the run may have besides those in so many bytes, at most.

        None if the source's size is not known.
        """
        if self.size is None:
            return None
        shortest = self.payload.source.kind.least_row_bytes(len(self.columns))
        # The last row of an object may lack its end.
        return max(0, self.size - read_bytes) // shortest + (self.objects or 1)

    @property
    def estimated_units(self) -> float:
        """Write units of the run if its rows are as short as can be; infinite if unknown."""
        if self.size is None:
            return math.inf
        return (self.most_rows_besides(0) or 0) + self.size / WRITE_UNIT_BYTES

    def workers_for(self, chunks: int) -> int:
        """Return the number of workers, of which there are no more than chunks."""
        most = self.workers if self.has_places else self.most_workers or self.workers
        return max(1, min(most, chunks))

    def wants_index(self, stored_bytes: int) -> bool:
        """Return whether to cut a compressed object of this size into chunks, if it can be cut."""
        workers = self.most_workers or self.workers
        least = INDEX_BYTES
        if self.objects is not None and self.payload.options.scan == EDGES:
            # Workers begin at once with objects that preflight need not read.
            least = max(least, INDEX_ONE_OF_SEVERAL_BYTES)
        return stored_bytes > least and (self.objects or 1) < workers

    @property
    def has_places(self) -> bool:
        """True if a worker can read several places of the source in turn.

        Several objects are read one after the other, small ones with others ahead. Attempts would
        need a record for each place, and updates of one item keep the order of a chunk.
        """
        in_order = self.keeps_attempts or self.mode.updates
        return self.objects is None and self.payload.source.is_ranged and not in_order

    @property
    def keeps_attempts(self) -> bool:
        """True if invocations record in the ledger how far they may have sent rows."""
        return self.mode.inserts or self.payload.options.condition is not None

    @property
    def stamp(self) -> dict[str, str]:
        """Run id and configuration that each segment and manifest part carries."""
        return {"run": self.run, "configuration": self.configuration}

    def to_json(self) -> dict[str, Any]:
        more = {"ledger_version": LEDGER_VERSION, "configuration": self.configuration}
        return Message.to_json(self) | more

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for another version of the ledger, or another configuration."""
        f.whole("ledger_version", None, LEDGER_VERSION, LEDGER_VERSION)
        configuration = f.text("configuration")
        if self.configuration != configuration:
            raise f.wrong("configuration", configuration, "that of this record")


# Prices: list prices are those of us-east-1, in US dollars.

MOST_UNITS = 1e12
"""More write units than a run consumes, and more a second than a table accepts."""

GIVEN, LIST_PRICE, NOT_BILLED = PRICE_SOURCES = ("given", "us-east-1", "provisioned")
"""Origins of a price: the user, the list price, and none, because a provisioned table bills
capacity and not units."""


class WritePrice(Message):
    """Price of the write units of a run, as its record keeps it."""

    dollars_per_million: float
    """Dollars for a million units in one region; 0 where units are not billed."""
    source: Annotated[str, JsonRule(choices=PRICE_SOURCES)]
    region: str
    """Region of the table."""
    regions: Annotated[int, JsonRule(least=1)] = 1
    """Number of regions that bill each unit: several for a global table."""

    @classmethod
    def of(
        cls,
        region: str,
        *,
        on_demand: bool,
        infrequent: bool = False,
        regions: int = 1,
        given: float | None = None,
    ) -> Self:
        """Choose the price: the given one, or the list price of us-east-1.

        A provisioned table bills no units; but its user may give a price to count with.
        """
        if given is not None:
            return cls(given, GIVEN, region, regions)
        if not on_demand:
            return cls(0.0, NOT_BILLED, region, regions)
        price = WRITE_UNIT_PRICE_IA if infrequent else WRITE_UNIT_PRICE
        return cls(price, LIST_PRICE, region, regions)

    def dollars(self, units: float) -> float:
        """Return the price of consumed write units in all regions; 0 where they are not billed."""
        return units * (self.dollars_per_million * self.regions / 1e6)

    def units(self, dollars: float) -> float | None:
        """Return the write units that an amount buys; None where units are not billed."""
        if not self.dollars_per_million:
            return None
        return min(MOST_UNITS, dollars * 1e6 / (self.dollars_per_million * self.regions))

    @property
    def origin(self) -> str:
        """Origin of the price, for people."""
        return {
            GIVEN: "as given",
            LIST_PRICE: f"{LIST_PRICE_REGION} list price of {LIST_PRICE_DATE}",
            NOT_BILLED: "provisioned capacity is billed by the hour, not by unit",
        }[self.source]

    @property
    def text(self) -> str:
        """Price and origin: `$0.625 a million (us-east-1 list price of 2026-11)`."""
        if self.source == NOT_BILLED:
            return self.origin
        where = f" in each of {self.regions} regions" if self.regions > 1 else ""
        return f"{dollars_text(self.dollars_per_million)} a million{where} ({self.origin})"


def dollars_text(amount: float) -> str:
    """Format a price with at least two decimals, and as many more as it has, up to six."""
    shown = f"{amount:,.6f}".rstrip("0")
    whole, _, decimals = shown.partition(".")
    return f"${whole}.{decimals.ljust(2, '0')}"


def amount_text(amount: float) -> str:
    """Format an amount of money: to the cent, or to a hundredth of it below ten cents."""
    if 0 < amount < 0.0001:
        return "less than $0.0001"
    return f"${amount:,.2f}" if amount >= 0.1 or amount == 0 else f"${amount:,.4f}"


LIST_PRICE_REGION = "us-east-1"
LIST_PRICE_DATE = "2026-11"
"""Month in which all of these prices were last checked."""

# DynamoDB. Names with IA are for the table class Standard-IA.
WRITE_UNIT_PRICE, WRITE_UNIT_PRICE_IA = 0.625, 0.78
"""Dollars for a million on-demand write units. In a global table each region bills them."""
READ_UNIT_PRICE, READ_UNIT_PRICE_IA = 0.125, 0.155
"""Dollars for a million on-demand read units."""
CAPACITY_HOUR, CAPACITY_HOUR_IA = 0.00065, 0.00081
"""Price of a provisioned write capacity unit per hour."""
WARM_UNIT = 0.00065
"""Price of a write unit a second of warm throughput above what the table has, once and per region.
"""
RECOVERY_GB_MONTH = 0.20
"""Price of point-in-time recovery per GB and month."""
IMPORT_GB = 0.15
"""Price of ImportTable per GB of uncompressed source: "Data import from Amazon S3" in "Amazon
DynamoDB pricing for on-demand capacity". It consumes no write units, and indexes are included
("DynamoDB data import from Amazon S3: how it works")."""

# Other services.
GB_SECOND = 0.0000133334
"""Price of Lambda on arm64 per GB-second."""
INVOCATION = 0.20 / 1e6
TRANSITION = 0.025 / 1e3
S3_WRITE = 0.005 / 1e3
"""Price of an S3 PUT or LIST request."""
S3_READ = 0.0004 / 1e3
METRIC_MONTH = 0.30
LOG_GB = 0.50
