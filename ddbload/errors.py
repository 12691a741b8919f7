"""All named errors of ddbload.

The class name is the name of the error everywhere: in the state machine's Retry and Catch, in the
ledger, in `--json` and on the terminal. A message says what is wrong, where, and what to do. It
never holds row data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import Any, ClassVar, Self

NAMES_OF_FILE = "NAMES"
"""Value of `--columns` in advice that is kept, in place of names that were read in the file."""
TAKE_UP = "take the run up again (ddbload resume; or ddbload import with the same --run-id)"
"""Advice that ends many messages."""
MAX_ERROR_TEXT = 8000


def visible(text: str, most: int | None = None) -> str:
    r"""Escape characters that have no picture: `\x1b`, `\u202e`, `\udc80`; cut to `most`."""
    cut = text if most is None else text[: most + 1]
    if not cut.isprintable():
        cut = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)
    return cut if most is None or len(cut) <= most else f"{cut[:most]}..."


class DdbloadError(Exception):
    """Base of all named errors."""

    exit_code: ClassVar[int] = 1
    """Exit code of the command line."""
    permanent: ClassVar[bool] = True
    """A retry with the same input fails again, so the state machine does not retry."""
    chunk_local: ClassVar[bool] = False
    """Only one chunk is affected, and the other chunks of the run may succeed."""
    resumable: ClassVar[bool] = True
    """Resuming the run may help, once the cause is removed."""
    chunk: int | None = None
    """Number of the chunk that the error ended; None if it is not of one chunk."""
    reading: Mapping[str, object] | None = None
    """Format that was detected of a source whose first row is refused, for plans."""
    options: tuple[Mapping[str, Any], ...] = ()
    """Options that may help, as data: `options`, words of the command line; `best`, true for one at
    most; `names` and `rows`, which they give. Rows are never kept in a ledger or a log."""

    def __init_subclass__(cls, **traits: bool | int) -> None:
        """Set what distinguishes an error: `class Name(DdbloadError, permanent=False)`."""
        for name, value in traits.items():
            setattr(cls, name, value)

    @property
    def name(self) -> str:
        """Name of the error, as in the state machine."""
        return type(self).__name__

    def __str__(self) -> str:
        return visible(super().__str__(), MAX_ERROR_TEXT)

    @property
    def message(self) -> str:
        """Message for users."""
        return str(self)


# What the caller asked for.


class InvalidPayload(DdbloadError):
    """The execution's input or an option is invalid."""


class InvalidUsage(DdbloadError, exit_code=2):
    """The command line has invalid options or arguments."""


class BucketNotAllowed(DdbloadError):
    """The deployment may not read this bucket or prefix."""


class TableNotAllowed(DdbloadError):
    """The deployment may not write this table."""


class ConditionRefused(DdbloadError, resumable=False):
    """DynamoDB refuses the run's condition, whatever the row."""


# The source.


class SourceNotFound(DdbloadError):
    """The file, object or object version does not exist."""


class SourceUnreadable(DdbloadError):
    """The source exists but cannot be read: no permission, a folder, or a device."""


class SourceChanged(DdbloadError):
    """The source is no longer the version that preflight pinned."""


class UnsupportedFormat(DdbloadError):
    """The bytes do not have the declared format or encoding."""


class InvalidJson(DdbloadError):
    """An array of JSON objects, or what stands between JSON values, is not well-formed."""


class DamagedCompression(DdbloadError):
    """Compressed data or an archive is damaged, truncated, or followed by other data."""


class ExpansionTooLarge(DdbloadError):
    """Compressed data expands to more than max_expansion times its size."""


class ExtraMissing(DdbloadError):
    """A format needs an optional package that is not installed."""

    @classmethod
    def of(cls, subject: str, package: str, extra: str) -> Self:
        """Make the error of a source that needs `package`, which the extra brings.

        It names the package, because `ddbload[extra]` can only be installed from a checkout.
        """
        return cls(
            f"{subject}, and the package for it is not installed: pip install {package}"
            f" (installed by pipx: pipx inject ddbload {package}; in a checkout: pipx install"
            f" --force '.[{extra}]'; on the deployed stack: cdk deploy -c extras={extra})"
        )


class DamagedParquet(DdbloadError):
    """A Parquet file is damaged, truncated or encrypted."""


class DamagedExport(DdbloadError):
    """A DynamoDB table export lacks a file or contains a changed one."""


class BadManifest(DdbloadError):
    """A manifest file has an unknown form or lists no object."""


class AmbiguousDelimiter(DdbloadError):
    """Two delimiters split all rows of the sample alike; the payload must name one."""


class BadHeader(DdbloadError):
    """The header row has bad quoting or bad encoding."""


class TooManyColumns(DdbloadError):
    """The source has more columns than an item could hold."""


class HeaderMismatch(DdbloadError):
    """One of several objects has different columns from the first."""


class DuplicateColumn(DdbloadError):
    """Two columns have the same name, so one would be lost."""


class EmptyColumnName(DdbloadError):
    """A column has no name, which DynamoDB attributes need."""


class ColumnNameTooLong(DdbloadError):
    """A column name exceeds DynamoDB's limit for attribute names."""


class UnknownColumn(DdbloadError):
    """A declared type, or the mapping, names a column that the file does not have."""


class RowTooLong(DdbloadError, chunk_local=True):
    """A row exceeds max_row_bytes, most often because of an unbalanced quote."""


class UnterminatedQuote(DdbloadError, resumable=False):
    """The source ends inside a quoted field, which may have swallowed any number of rows."""


class SplitMismatch(DdbloadError, chunk_local=True):
    """The last byte of a chunk is not the end of a row, so the split is wrong."""


# The table.


class TableNotFound(DdbloadError, resumable=False):
    """DynamoDB has no such table here."""

    # A table that is created later under the same name is a different table.


class TableNotActive(DdbloadError):
    """The table exists but does not accept writes now."""


class TableReplaced(DdbloadError, resumable=False):
    """The table was deleted and created again during the run."""


class BackupRequired(DdbloadError):
    """The table has no point-in-time recovery, which the run or the deployment requires."""


class KeyColumnMissing(DdbloadError):
    """The file has no column for a key attribute of the table."""


class KeyTypeMismatch(DdbloadError):
    """A declared type contradicts the table's keys."""


class UnsupportedKeyType(DdbloadError):
    """A key of the table has a type that cannot be made from text."""


# AWS.


class AccessDenied(DdbloadError):
    """Credentials are missing, expired or not authorized."""


class AwsConfiguration(DdbloadError):
    """The AWS settings are incomplete or contradict each other."""


class ServiceUnavailable(DdbloadError, permanent=False):
    """An AWS endpoint is unreachable or keeps failing; a later attempt may succeed."""


class RequestRefused(DdbloadError):
    """AWS refused a request, and would refuse it again."""


# The run.


class NoProgress(DdbloadError):
    """Three continuations in a row settled no row."""


class TooManyRejects(DdbloadError):
    """More rows were rejected than max_rejects allows."""


class Cancelled(DdbloadError, exit_code=130):
    """The run was cancelled; resuming it continues."""

    @classmethod
    def of(cls, run: str) -> Self:
        """Make the error of a worker that finds its run cancelled."""
        return cls(f"run {run} was cancelled; ddbload resume {run} continues it")


class MaxCostReached(DdbloadError):
    """The run has consumed the write units that max_cost pays for."""


class ControlLost(DdbloadError, permanent=False):
    """A worker with a limit could not record in the ledger that it is alive."""


_ADVICE = {
    "field_count": (
        "name the delimiter (--delimiter), or skip the lines before the header (--skip-lines)"
    ),
    "not_a_number": (
        "if the column holds text, give it type S (--types COLUMN=S); else the delimiter is wrong"
    ),
    "bad_encoding": "name the file's encoding (--encoding)",
    "empty_key": (
        "no row has a value for a key: if its column has another name, rename it (--rename"
        " OLD=KEY); if the rows are a list within an object of JSON, say so (--layout object)"
    ),
}
"""Advice by the cause that rejects every row of a source."""


def _read_reject(line: bytes | None) -> dict[str, Any]:
    with suppress(ValueError):
        return dict(json.loads(line or b"{}"))
    return {}


class NothingWritten(DdbloadError, resumable=False):
    """Every row was rejected."""

    @classmethod
    def of(
        cls,
        rows: int,
        hint: str,
        cause: str | None = None,
        word: str = "written",
        first: bytes | None = None,
    ) -> Self:
        """Make the error of a run with `rows` rows.

        Args:
            rows: Rows of the source.
            hint: Where to find the reasons.
            cause: The most frequent cause of rejects; None if unknown.
            word: What becomes of rows that are not rejected.
            first: First reject, as a line of JSON.
        """
        subject = "the only row was" if rows == 1 else f"all {rows:,} rows were"
        error = cls(
            f"{subject} rejected, so nothing was {word}: {hint}; {cls._place(first)}"
            f"{cls.advice(cause)}"
        )
        reject = _read_reject(first)
        if cause == "not_a_number" and reject.get("column") is not None:
            # Not the best: the column may be a key of type N.
            words = ["--types", f"{reject['column']}=S"]
            error.options = ({"options": words, "best": False},)
        return error

    @staticmethod
    def _place(first: bytes | None) -> str:
        """Describe the first reject, without row data: `the first is line 2, column 'n'; `."""
        reject = _read_reject(first)
        if not reject:
            return ""
        line = "" if reject.get("line") is None else f" line {reject['line']}"
        column = "" if reject.get("column") is None else f" column {reject['column']!r}"
        places = ",".join(filter(None, (line, column))) or " a row"
        return f"the first is{places} ({reject.get('cause')}); "

    @staticmethod
    def advice(cause: str | None) -> str:
        """Say what helps where a cause rejects every row."""
        return _ADVICE.get(
            cause or "", "most often the delimiter, a type or the key's column is not the file's"
        )


class NothingCompared(DdbloadError):
    """A source has no item to compare with the table's."""


class ConservationViolated(DdbloadError):
    """The row counts are wrong: the rows read are not the sum of their outcomes."""


class IncompleteRun(DdbloadError):
    """The ledger does not prove that every byte of the source was imported."""


class LedgerDamaged(DdbloadError):
    """An object of the ledger was not written by ddbload."""


class LedgerUnwritable(DdbloadError):
    """The ledger cannot be written: the disk is full, or permission is missing."""


class RunNotFound(DdbloadError):
    """The ledger does not have the run."""


class RunMismatch(DdbloadError):
    """The run id belongs to a run with another source, table, format or transform."""


class TransformNotDeterministic(DdbloadError):
    """A function of rows gives two results for one row."""


class AlreadyLoading(DdbloadError):
    """Another run is loading the same of an object that this run shall load once."""


class UploadSuperseded(DdbloadError, resumable=False):
    """A newer upload of the same key was loaded, or is being loaded."""


class RunUnderWay(DdbloadError):
    """Another process is working on the run."""


class ExecutionExists(DdbloadError):
    """An execution of this name was started before; Step Functions keeps names for 90 days."""

    # on_upload, which is not a task, catches it.


class StackNotFound(DdbloadError):
    """CloudFormation has no such stack, or ddbload did not deploy it."""


class WorkerDied(DdbloadError, permanent=False):
    """A worker process ended without a result."""


class RejectsNotKept(DdbloadError):
    """The rejects file cannot be written; the ledger has the rejects."""


class BadRetryFile(DdbloadError):
    """A file of corrected rejects has a line that is not a reject with exactly one row."""


class PrewarmUnfinished(DdbloadError):
    """DynamoDB has not raised the table's warm throughput within an hour."""


class OutputUnwritable(DdbloadError):
    """The output of a command cannot be written."""


class RunFailed(DdbloadError):
    """A run has ended without being done. Raised by `RunResult.raise_for_status` alone."""


class DemoUnavailable(DdbloadError):
    """The demo needs software that is not installed."""


class ToolsUnavailable(DdbloadError):
    """Node.js, Python's venv, or the packages that a deployment needs cannot be had."""


class DeploymentFailed(DdbloadError):
    """The CDK, or CloudFormation, refuses a deployment or its removal."""


class UnexpectedError(DdbloadError, chunk_local=True):
    """A bug in ddbload."""


class Interrupted(DdbloadError, exit_code=130, permanent=False):
    """The user stopped the run; the same run id continues it."""


def is_resumable(name: str) -> bool:
    """Return true if resuming may help a run that failed with the named error."""
    kind = globals().get(name)
    return not (isinstance(kind, type) and issubclass(kind, DdbloadError)) or kind.resumable


def unexpected(error: Exception, doing: str) -> UnexpectedError:
    """Make the error of a bug: its type and place, without its text, which may hold row data."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "?"
    if trace is not None:
        place = f"{PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return UnexpectedError(
        f"{doing}: {type(error).__name__} at {place}; this is a fault of ddbload, please report it"
    )


_COMPARED = 2000
"""Names that are compared at most: an error may take a moment, and not a minute."""
_LONGEST, _ALIKE = 200, 0.6
_WORDS = re.compile(r"[^\W_]+")


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of the names; None if none is similar.

    Similar are names that differ in case, have the name as a word, or are mostly the same.
    """
    # Imported here, because only errors need it.
    from difflib import get_close_matches

    known = {_folded(each): each for each in islice(names, _COMPARED) if 0 < len(each) <= _LONGEST}
    asked = _folded(name)
    if asked in known:
        return known[asked]
    close = get_close_matches(asked[:_LONGEST], known, 1, _ALIKE)
    if close:
        return known[close[0]]
    with_word = [each for folded, each in known.items() if asked in _WORDS.findall(folded)]
    return with_word[0] if len(with_word) == 1 else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'NAME'?` for an error message, or nothing."""
    near = nearest_name(name, names)
    return "" if near is None else f"; did you mean {near!r}?"


def _folded(name: str) -> str:
    return name.strip().casefold()
