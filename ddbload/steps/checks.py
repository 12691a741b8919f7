"""Checks of a run before its first write, and the limits that follow from its table.

Each check is a function that raises a named error. The checks of the request run before the source
is looked at, those of the table once it is described, those of the columns once the header is read.
`on_upload` and `load_history` hold back a run whose turn has not come, and one whose objects
another run is loading.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import call_if_possible
from ddbload.aws.table_description import (
    TABLE_QUOTA,
    UNITS_PER_WORKER,
    WriteCapacity,
    choose_workers,
    describe_table_with_response,
    require_recovery,
    write_capacity,
    write_price,
)
from ddbload.context import Context
from ddbload.contracts.column_mapping import (
    ColumnChanges,
    Dialect,
    check_column_names,
    check_dialect,
    column_changes,
    row_writes,
    shown,
)
from ddbload.contracts.options import Options
from ddbload.contracts.payload import CELL_TYPES, Payload, attribute_type
from ddbload.contracts.run_record import NOT_BILLED, KeyAttribute, Table, WritePrice
from ddbload.dynamodb.limits import MAX_NAME_BYTES
from ddbload.dynamodb.modes import MAX_EXPRESSION_BYTES, SETS, RowWrites, longest_update
from ddbload.errors import (
    Cancelled,
    DdbloadError,
    InvalidPayload,
    KeyColumnMissing,
    KeyTypeMismatch,
    RunMismatch,
    UnknownColumn,
    UnsupportedKeyType,
)
from ddbload.items.row_attributes import TYPED_TYPES, item_layout, missing
from ddbload.items.row_filter import document_filter, row_filter
from ddbload.items.type_inference import (
    SettledCells,
    TypeGuess,
    infer_types,
    inferred_column_types,
    settle_cells,
)
from ddbload.ledger.ledger import Ledger
from ddbload.reading.header import Header
from ddbload.reading.open_sources import known_size
from ddbload.reading.row_blocks import hmac_key, iter_row_blocks
from ddbload.records import Record
from ddbload.rows.blocks import BlockSplitter
from ddbload.rows.columns import ColumnReader, Columns, RowParser, header_names
from ddbload.rows.dialect_grammar import dialect_boundaries
from ddbload.source.decoding.decoded_source import DecodedSource

if TYPE_CHECKING:
    from ddbload.aws.clients import Clients

SINGLE_ROW_SHARE = 4
"""A worker writes this part of the rows if each is a request of its own, as conditions need."""
SHARE_OF_ACCOUNT = 2
"""A run takes at most one part in this many: other functions of the account need the rest."""


# The request.


def require_not_cancelled(ledger: Ledger) -> None:
    """Raise `Cancelled` if the run was cancelled."""
    if ledger.is_cancelled:
        raise Cancelled.of(ledger.run)


def check_settings(payload: Payload) -> None:
    """Raise the named error of a dialect, columns or mapping that no source has."""
    check_dialect(payload.source)
    if payload.source.columns is not None:
        check_column_names(payload.source.columns)
    column_changes(payload.mapping)
    hmac_key(payload)


def check_request(payload: Payload, ledger: Ledger, context: Context) -> None:
    """Check cancellation, permission and settings, in this order."""
    if not ledger.asked_now:
        require_not_cancelled(ledger)
    context.access.check_table(payload.table)
    if payload.transform is not None and context.transform is None:
        raise RunMismatch(
            "the run's rows are changed by a Python function: give it again, as"
            " ddbload.resume(run, transform=function)"
        )
    check_settings(payload)


# The table.


def describe(payload: Payload, context: Context) -> tuple[Table, Mapping[str, Any]]:
    """Describe the payload's table; the second value is the answer of DescribeTable."""
    return describe_table_with_response(
        context.clients.dynamodb,
        payload.table,
        retry_policy=context.retry_policy,
        suggest=context.access.paths,
    )


class RunLimits(Record):
    """Options without shares of the table, and what follows from them and the table."""

    options: Options
    most_workers: int
    """Workers, if there are as many chunks."""
    write_price: WritePrice | None
    """Price of the run's write units; None for work without a table."""
    capacity: float | None = None
    """Write units a second that the table takes; None for work without a table."""


def resolve_limits(
    options: Options, table: str, described: Mapping[str, Any] | None, context: Context
) -> RunLimits:
    """Resolve the run's limits. `described`: the `Table` of DescribeTable; None without a table.

    Raises `BackupRequired` for a table without the recovery that is required, and `InvalidPayload`
    for a `max_cost` on a table whose write units have no price.
    """
    if described is None:
        return RunLimits(options, options.workers or 1, None)
    dynamodb = context.clients.dynamodb
    price = write_price(described, dynamodb.meta.region_name, given=options.unit_price)
    if options.require_backup or context.require_backup:
        require_recovery(dynamodb, table, retry_policy=context.retry_policy)
    if options.max_cost is not None and price.source == NOT_BILLED:
        raise InvalidPayload(
            "'options.max_cost' limits the price of write units, but the table has provisioned"
            " capacity, which is billed by the hour: leave it out, or give 'options.unit_price'"
        )
    capacity = write_capacity(described)
    if options.max_wcu_percent is not None:
        share = capacity.share(options.max_wcu_percent)
        options = replace(options, max_wcu=share, max_wcu_percent=None)
    workers = _count_workers(options, capacity, context)
    return RunLimits(options, workers, price, capacity.units)


def _count_workers(options: Options, capacity: WriteCapacity, context: Context) -> int:
    """Return the given number of workers, or choose one; the reserved concurrency limits both."""
    reserved = context.import_concurrency
    if options.workers is None:
        batched = options.write_mode.batch is not None and options.condition is None
        # A core of this machine encodes as many units as a table accepts by default.
        most = UNITS_PER_WORKER if context.in_account else TABLE_QUOTA
        each = most if batched else most // SINGLE_ROW_SHARE
        wanted = choose_workers(capacity.units, options.max_wcu, each=each)
        if reserved is None and context.in_account and wanted > 1:
            reserved = _account_concurrency(context.clients)
        return wanted if reserved is None else max(1, min(wanted, reserved))
    if reserved is not None and reserved < options.workers:
        if context.notice is not None:
            context.notice(
                f"workers is {options.workers}, and import_concurrency of the stack lets"
                f" {reserved} import at once: {reserved} are used"
            )
        return reserved
    return options.workers


def _account_concurrency(clients: Clients) -> int | None:
    """Return how many import functions a run may use in this account; None if unknown.

    That is half of UnreservedConcurrentExecutions: "The maximum number of simultaneous function
    executions, minus the capacity that's reserved for individual functions" (AccountLimit). New
    accounts start with 10.
    """

    def ask() -> int:
        answer: Any = clients.advisory("lambda").get_account_settings()
        unreserved = int(answer["AccountLimit"]["UnreservedConcurrentExecutions"])
        return max(1, unreserved // SHARE_OF_ACCOUNT)

    return call_if_possible(ask, "reading the account's concurrency")


# The columns.


KEY_TYPES = ("S", "N", "B")
NO_TABLE = Table(name="none", id="", keys=())
"""Placeholder for items that are made without a table: no attribute is a key."""
SAMPLE_BYTES = 1024 * 1024
"""Bytes sampled for type inference."""
_SAMPLE_PIECE_BYTES = 64 * 1024


def resolve_types(
    file: DecodedSource, header: Header, payload: Payload, table: Table
) -> SettledCells:
    """Resolve the type of each attribute of delimited text; none for JSON, whose values have types.

    Raises `UnknownColumn`, `DuplicateColumn`, `InvalidPayload` and as `check_column_types`.
    """
    writes = row_writes(payload, table)
    changes = column_changes(payload.mapping)
    if payload.transform is None:
        _refuse_one_key(table, changes)
    if not payload.source.kind.has_columns:
        if payload.source.number_signs:
            told = f"are for delimited text, and the format is {payload.source.format}"
            raise InvalidPayload(f"'source.decimal' and 'source.thousands' {told}")
        changes.named()
        check_document_types(payload.types, table)
        keys = {key.name: key.type for key in (*table.index_keys, *table.keys)}
        document_filter(payload.where, changes, {**keys, **payload.types})
        check_position(payload.options.position_attribute, (), table)
        if writes is not None:
            named = dict.fromkeys(writes.adds, payload.source.kind.set_type)
            check_adds(writes, {**named, **payload.types})
        return SettledCells()
    layout = item_layout(header.columns, payload, hmac_key(payload))
    check_position(payload.options.position_attribute, layout.attributes, table)
    if not header.columns:
        # A file without rows cannot contradict the table.
        return SettledCells()
    guesses, inferring = dict[str, TypeGuess](), payload.infer_types
    sample = _sample_columns(
        file, header, payload, SAMPLE_BYTES if inferring else _SAMPLE_PIECE_BYTES
    )
    # A guess for advice alone fails no run: reading the rows names the error.
    if inferring or not payload.options.write_mode.deletes:
        with nullcontext() if inferring else suppress(DdbloadError):
            guesses = infer_types(layout, sample, payload.source.number_signs)
    inferred = inferred_column_types(guesses) if inferring else {}
    compared = {each.column for each in payload.where} & changes.drop
    declared = {
        name: kind
        for name, kind in payload.types.items()
        # The type of a column that is compared and then dropped.
        if name in layout.attributes or name not in compared
    }
    types = check_column_types(layout.attributes, declared, table, inferred, header.columns)
    layout.check_constants(tuple(map(payload.source.cell_type, types)))
    if writes is not None:
        check_row_writes(writes, layout.attributes, types, header.columns)
    if payload.where:
        row_filter(header.columns, layout, types, changes, payload)
    settled = SettledCells(types)
    if not TYPED_TYPES.keys().isdisjoint(types):
        settled = settle_cells(layout, types, _sample_columns(file, header, payload, SAMPLE_BYTES))
    if inferring:
        return settled
    typed = {*declared, *(key.name for key in (*table.keys, *table.index_keys))}
    numbers = [
        name for name, guess in guesses.items() if name not in typed and guess.proposed == "N"
    ]
    return settled._replace(numbers=tuple(numbers))


def _refuse_one_key(table: Table, changes: ColumnChanges) -> None:
    """Raise `InvalidPayload` if the mapping sets every key of the table to a constant."""
    names = [key.name for key in table.keys]
    templates = [changes.templates.get(name) for name in names]
    if names and all(template is not None and not template.names for template in templates):
        raise InvalidPayload(
            f"the mapping sets {' and '.join(map(shown, names))} to the same text in every row, so"
            " that each row replaces the one before: name a column in braces, as in"
            f" --set '{names[0]}=USER#{{id}}'"
        )


def _sample_columns(
    file: DecodedSource, header: Header, payload: Payload, most_bytes: int
) -> Iterator[Columns]:
    """Read the cells of the first rows."""
    dialect = Dialect.of(payload.source)
    ends = dialect_boundaries(dialect)
    reader = ColumnReader(
        RowParser(dialect, ends, payload.nulls.markers),
        len(header.columns),
        names=header_names(payload.source, header.columns),
    )
    splitter = BlockSplitter(ends, header.data_start, payload.options.row_limit)
    blocks = iter_row_blocks(file, splitter, known_size(file), _SAMPLE_PIECE_BYTES)
    for block in islice(blocks, most_bytes // _SAMPLE_PIECE_BYTES):
        if block is not None:
            yield reader.read(block)


def check_column_types(
    columns: Sequence[str],
    declared: Mapping[str, str],
    table: Table,
    inferred: Mapping[str, str] | None = None,
    gone: Collection[str] = (),
) -> tuple[str, ...]:
    """Return each attribute's type: declared, that of the key it is, inferred, or S.

    `columns`: attribute names after renames, drops and constants; `gone`: the file's columns.
    Raises `UnknownColumn`, `KeyColumnMissing`, `KeyTypeMismatch` and `UnsupportedKeyType`.
    """
    known = set(columns)
    for name in declared:
        if name not in known:
            raise UnknownColumn(
                f"a type is declared for {shown(name)}, which is {missing(name, columns, gone)}"
            )
    types = dict(declared)
    for key in table.keys:
        if key.name not in known:
            raise KeyColumnMissing(
                f"table {table.name} is keyed by {shown(key.name)}, which is"
                f" {missing(key.name, columns, gone, is_key=True)}"
            )
    for key in (*table.keys, *table.index_keys):
        if key.name not in known:
            continue
        if key.type not in KEY_TYPES:
            raise UnsupportedKeyType(
                f"{shown(key.name)} is a key of type {key.type} in table {table.name}; from text"
                f" ddbload makes keys of type {', '.join(KEY_TYPES)}"
            )
        _require_type(types.setdefault(key.name, key.type), key, table)
    return tuple(types.get(name) or (inferred or {}).get(name, "S") for name in columns)


def check_row_writes(
    writes: RowWrites, attributes: Sequence[str], types: Sequence[str], gone: Sequence[str] = ()
) -> None:
    """Check the columns that updates and conditions name against the file's.

    Raises `UnknownColumn` and `InvalidPayload`.
    """
    uses = dict.fromkeys(sorted(writes.condition_columns), "the condition ('options.condition')")
    uses |= dict.fromkeys(sorted(writes.adds), "'options.add'")
    for name, use in uses.items():
        if name not in attributes:
            raise UnknownColumn(f"{use} names {shown(name)}, which is {missing(name, gone)}")
    check_adds(writes, dict(zip(attributes, types, strict=True)))
    size = longest_update(attributes, writes.keys) if writes.mode.updates else 0
    if size > MAX_EXPRESSION_BYTES:
        raise InvalidPayload(
            f"{len(attributes):,} attributes make an update of {size:,} bytes, and DynamoDB's limit"
            f" for an UpdateExpression is {MAX_EXPRESSION_BYTES:,}: leave columns out (--drop), or"
            " import the file in parts of some columns each"
        )


def check_adds(writes: RowWrites, types: Mapping[str, str]) -> None:
    """Raise `InvalidPayload` if an attribute to add to is a key, or is not a set."""
    for name in sorted(writes.adds):
        use = f"{shown(name)} ('options.add', --add)"
        if name in writes.keys:
            raise InvalidPayload(f"{use} is a key attribute of table {writes.table}")
        kind = attribute_type(types[name])
        if kind == "N":
            raise InvalidPayload(
                f"{use} is a number. Rows of one key may be in two chunks, and a request that is"
                " sent again would add twice, so ddbload adds to sets only: import the sum"
            )
        if kind not in SETS:
            raise InvalidPayload(
                f"{use} is of type {kind}, and only sets can be added to: declare"
                f" --types {name}=SS (or NS, BS)"
            )


def check_document_types(declared: Mapping[str, str], table: Table) -> None:
    """Raise `KeyTypeMismatch` if a declared type differs from that of a key.

    Raises `InvalidPayload` for a type of cells.
    """
    for name, kind in declared.items():
        if kind in CELL_TYPES:
            raise InvalidPayload(
                f"{shown(name)} is declared {kind}, which is for delimited text: declare"
                f" {attribute_type(kind)}, or leave the type out"
            )
    for key in (*table.keys, *table.index_keys):
        if key.name in declared:
            _require_type(declared[key.name], key, table)


def _require_type(declared: str, key: KeyAttribute, table: Table) -> None:
    if attribute_type(declared) != key.type:
        raise KeyTypeMismatch(
            f"{shown(key.name)} is declared {declared}, and is a key of type {key.type} in table"
            f" {table.name} or one of its indexes"
        )


def check_position(name: str | None, columns: Sequence[str], table: Table) -> None:
    """Raise `InvalidPayload` if `last-wins` cannot store positions in an attribute of that name."""
    if name is None:
        return
    use = (
        f"the position attribute ('options.position_attribute', --position-attribute) is"
        f" {shown(name)}, which"
    )
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidPayload(f"{use} is longer than an attribute's name may be")
    if name in columns:
        raise InvalidPayload(f"{use} is a column of the file: name an attribute of its own")
    keys = [key for key in (*table.keys, *table.index_keys) if key.name == name]
    if keys:
        raise InvalidPayload(
            f"{use} is a key attribute of table {table.name} or of one of its indexes: name an"
            " attribute of its own"
        )
