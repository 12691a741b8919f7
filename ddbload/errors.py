"""Every failure ddbload names.

The class name is the error's name everywhere: in the state machine's Retry and Catch, in
the ledger, in `--json` and on the terminal. `exit_code` is what the command line ends with;
`permanent` says that trying again with the same input cannot help. A message says what was
wrong, where, and what to do; it never carries row data.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import ClassVar, Self

TAKE_UP = "take the run up again (ddbload resume; or ddbload import with the same --run-id)"
"""What to do, in many messages."""


class DdbloadError(Exception):
    """Base of all named errors."""

    exit_code: ClassVar[int] = 1
    permanent: ClassVar[bool] = True
    chunk_local: ClassVar[bool] = False
    """Whether it says something of one chunk only, so that its siblings may well go on."""
    resumable: ClassVar[bool] = True
    """Resuming the run may help, once the cause is removed."""

    @property
    def name(self) -> str:
        """The error's name, as the state machine spells it."""
        return type(self).__name__

    @property
    def message(self) -> str:
        """What happened, for people."""
        return str(self)


# What the caller asked for.


class InvalidPayload(DdbloadError):
    """The execution input, or an option, is not what the contract says."""


class InvalidUsage(DdbloadError):
    """The command line was used wrongly."""

    exit_code = 2


class BucketNotAllowed(DdbloadError):
    """The deployment may not read this bucket, or this place."""


class TableNotAllowed(DdbloadError):
    """The deployment may not write this table."""


# The source.


class SourceNotFound(DdbloadError):
    """No such file, object or object version."""


class SourceUnreadable(DdbloadError):
    """The source exists and cannot be read: permission, a folder, a device."""


class SourceChanged(DdbloadError):
    """The source is no longer the version that preflight pinned."""


class SourceUnavailable(DdbloadError):
    """Reading failed again and again; a later try may succeed."""

    permanent = False


class UnsupportedFormat(DdbloadError):
    """The bytes are of a kind that this format or encoding cannot be."""


class DamagedCompression(DdbloadError):
    """gzip or Zstandard data are damaged, cut short, or followed by something else."""


class ExpansionTooLarge(DdbloadError):
    """Compressed data expand to more than max_expansion times their size, as bombs do."""


class ExtraMissing(DdbloadError):
    """A format needs a package that is an extra, and that is not installed."""


class DamagedParquet(DdbloadError):
    """A Parquet file cannot be read: damaged, cut short or encrypted."""


class DamagedExport(DdbloadError):
    """A DynamoDB table export lacks a file, or has one that is not what was exported."""


class BadManifest(DdbloadError):
    """A manifest file is of none of the forms that are known, or names nothing."""


class BadHeader(DdbloadError):
    """The header row cannot be read: bad quoting or bad encoding."""


class HeaderMismatch(DdbloadError):
    """One of several objects has other columns than the first."""


class DuplicateColumn(DdbloadError):
    """Two columns share a name; one of them would be lost."""


class EmptyColumnName(DdbloadError):
    """A column has no name; DynamoDB attributes need one."""


class ColumnNameTooLong(DdbloadError):
    """A column name exceeds DynamoDB's limit for attribute names."""


class UnknownColumn(DdbloadError):
    """A declared type, or the mapping, names a column that the file does not have."""


class RowTooLong(DdbloadError):
    """A row exceeds max_row_bytes: most often an unbalanced quote."""

    chunk_local = True


class UnterminatedQuote(DdbloadError):
    """The source ends inside a quoted field, which may have swallowed any number of rows."""


class SplitMismatch(DdbloadError):
    """A chunk's last byte is not the end of a row: the cut is not to be trusted."""

    chunk_local = True


# The table.


class TableNotFound(DdbloadError):
    """DynamoDB has no such table here."""

    # A table of the same name that is made later is another one.
    resumable = False


class TableNotActive(DdbloadError):
    """The table exists and does not take writes now."""


class TableReplaced(DdbloadError):
    """The table was deleted and made again under its name while a run wrote to it."""

    resumable = False


class KeyColumnMissing(DdbloadError):
    """The table's key attribute is no column of the file."""


class KeyTypeMismatch(DdbloadError):
    """A declared type contradicts the table's keys."""


class UnsupportedKeyType(DdbloadError):
    """The table's key is of a type that text cannot give."""


# AWS.


class AccessDenied(DdbloadError):
    """Credentials are missing, expired or not allowed to do this."""


class AwsConfiguration(DdbloadError):
    """The AWS settings are incomplete or contradict each other."""


class ServiceUnavailable(DdbloadError):
    """An AWS endpoint cannot be reached or keeps failing; a later try may succeed."""

    permanent = False


class RequestRefused(DdbloadError):
    """AWS refused a request for a reason that repeating it cannot change."""


# The run.


class NoProgress(DdbloadError):
    """Three continuations in a row settled no row."""


class TooManyRejects(DdbloadError):
    """More rows were rejected than max_rejects allows."""


class NothingWritten(DdbloadError):
    """Every row was rejected."""

    resumable = False

    @classmethod
    def of(cls, rows: int, hint: str) -> Self:
        """The error of a run of so many rows. `hint`: where to see why."""
        said = "the only row was" if rows == 1 else f"all {rows:,} rows were"
        return cls(
            f"{said} rejected, so nothing was written: {hint}; most often the delimiter, a type or"
            " the key's column is not the file's"
        )


class ConservationViolated(DdbloadError):
    """read is not written + rejected + superseded + skipped: the counts are not to be trusted."""


class IncompleteRun(DdbloadError):
    """The ledger does not prove that every byte of the source was imported."""


class LedgerDamaged(DdbloadError):
    """An object of the ledger is not what ddbload wrote."""


class LedgerUnwritable(DdbloadError):
    """The ledger cannot be written: its disk is full, or permission is missing."""


class RunNotFound(DdbloadError):
    """The ledger knows no such run."""


class RunMismatch(DdbloadError):
    """The run id belongs to a run with another source, table or reading of it."""


class RunUnderWay(DdbloadError):
    """Another process works on the run now."""


class ExecutionExists(DdbloadError):
    """An execution of this name was started before; Step Functions keeps names for 90 days."""


class StackNotFound(DdbloadError):
    """CloudFormation has no such stack here, or it is none of ddbload's."""


class WorkerDied(DdbloadError):
    """A worker process ended without an answer."""

    permanent = False


class RejectsNotKept(DdbloadError):
    """The rejects cannot be written where they are wanted. The ledger has them."""


class BadRetryFile(DdbloadError):
    """A file of mended rejects has a line that is no reject, or whose row is not exactly one."""


class OutputUnwritable(DdbloadError):
    """What was converted cannot be written where it is wanted."""


class DemoUnavailable(DdbloadError):
    """The demo lacks a part of its set-up."""


class UnexpectedError(DdbloadError):
    """A fault of ddbload itself."""

    chunk_local = True


class Interrupted(DdbloadError):
    """The user stopped the run; the same run id continues it."""

    exit_code = 130
    permanent = False


def is_resumable(name: str) -> bool:
    """Tell whether resuming may help a run that failed with the error of this name."""
    kind = globals().get(name)
    return not (isinstance(kind, type) and issubclass(kind, DdbloadError)) or kind.resumable


def unexpected(error: Exception, doing: str) -> UnexpectedError:
    """A fault of ours: its kind and its place, and not its text, which may hold row data."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "?"
    if trace is not None:
        place = f"{PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return UnexpectedError(
        f"{doing}: {type(error).__name__} at {place}; this is a fault of ddbload, please report it"
    )
