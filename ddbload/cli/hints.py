"""Hints for names that users know from other tools: options, formats, modes, source addresses."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from ddbload.errors import InvalidUsage


def _by_word(hints: Mapping[str, str]) -> dict[str, str]:
    """Index hints by each word listed for them."""
    return {word: hint for hint, words in hints.items() for word in words.split()}


_OPTIONS = _by_word(
    {
        "for the delimiter use --delimiter": "--sep --separator --delim --field-separator"
        " --fs -d -F",
        "for the quote character use --quote": "--quotechar --quote-char",
        "for the escape character use --escape": "--escapechar --escape-char",
        "for the character encoding use --encoding": "--charset --character-set",
        "for the format of SOURCE use --format": "--file-format --input-format --filetype",
        "for the types of columns use --types year=N,ok=BOOL": "--schema --type"
        " --column-types --dtype --dtypes --data-types",
        "to detect numbers and booleans use --infer-types": "--infer --infer-schema --guess-types",
        "the first row is taken as column names, and not loaded; a file without such a row use"
        " --no-header": "--skip-header --has-header --headers --header-row",
        "to skip lines before the header use --skip-lines": "--skiprows --skip-rows --skip",
        "to name the columns use --columns": "--fields --names --column-names --fieldnames",
        "to leave columns out use --drop": "--exclude --ignore-columns --exclude-columns"
        " --skip-columns",
        "for text that means no value use --null": "--na-values --null-values --nullstr"
        " --null-value",
        "compression is detected; to name it use --compression": "--gzip --gunzip --compress"
        " --decompress",
        "batches are as large as DynamoDB allows; for the number of requests in flight use"
        " --concurrency": "--batch-size --batch --chunksize --chunk-size",
        "for the number of worker processes use --processes": "--workers --threads --parallel"
        " --parallelism --jobs --num-workers -j -p",
        "for the number of Lambda functions at once use --workers": "--processes",
        "for the first rows only use --first": "--limit --max-rows --rows --nrows --num-rows"
        " --head --count --max-items -n",
        "to limit write units a second use --max-wcu": "--rate --rate-limit --wcu"
        " --write-capacity --throttle --max-rate --rps",
        "to limit what the run costs use --max-cost": "--budget --max-price --cost",
        "for the number of rejected rows to accept use --max-rejects": "--max-errors"
        " --error-limit --max-bad-records --maxerror --ignore-errors --on-error"
        " --continue-on-error",
        "for a file of rejected rows use --rejects": "--error-file --errors --bad --badfile"
        " --bad-file --reject-file",
        "for a file of the rows that would be rejected use"
        " --rejects of ddbload convert": "--rejects",
        "a row replaces the item with its key: that is the default, --mode put": "--overwrite"
        " --replace --upsert --truncate",
        "to skip rows whose key the table has use --mode insert": "--no-overwrite"
        " --skip-existing --ignore-existing --if-not-exists --no-clobber",
        "to delete the listed keys use --mode delete": "--delete --remove",
        "a row replaces the item with its key by default (--mode put), and a source is loaded"
        " again under a new run id unless --once is given": "--force",
        "to resume a run use ddbload resume RUN": "--resume --continue --restart",
        "to check the source without writing use --dry-run": "--dryrun --check --validate"
        " --validate-only --simulate --noop",
        "to see each step use --verbose": "--debug --log-level --loglevel --trace -v -vv",
        "to print less use --quiet": "--silent --no-progress -q -s",
        "for the result as JSON use --json": "--json-output --output-json --as-json",
        "to return once the run has started use --detach": "--wait --no-wait --background --async",
        "for the AWS region use --region": "--region-name --aws-region",
        "for the AWS profile use --profile": "--aws-profile --profile-name",
        "for another endpoint use --endpoint-url": "--endpoint --host --url",
        "for the deployed stack use --stack": "--stack-name",
        "the table is the last argument: SOURCE TABLE": "--table --table-name --dynamodb-table -t",
        "the source is the first argument, without an option": "--file --input --source"
        " --path --filename --src -f -i",
        "the source is the first argument: s3://bucket/key, or s3://bucket/prefix/": "--bucket"
        " --prefix --recursive --s3",
        "keys are the table's: rename a column to one (--rename), or make a missing table with"
        " --create-table isbn:S": "--key --keys --primary-key --partition-key --hash-key",
        "a time to live is a column of type epoch: --types expires=epoch": "--ttl --ttl-attribute",
        "options stand in a job file: ddbload run FILE": "--config --conf --settings --job",
        "the output is the last argument: SOURCE OUT": "--out --output --output-file --dest -o",
        "the run is the first argument, without an option": "--run",
    }
)
"""Hints by option. A hint that names an option is shown only if the command has that option."""
_ARGUMENT_HINTS = {
    "the table is the last": "table",
    "the source is the first": "sources",
    "the output is the last": "out",
    "the run is the first": "run",
}
FORMAT_HINTS = _by_word(
    {
        "that is json, one object a line": "jsonl ndjson jsonlines json-lines ldjson",
        "save the sheet as CSV": "xlsx xls excel ods",
        "text with any delimiter is csv: --delimiter": "psv ssv dsv text txt",
        "that is dynamodb-json, or dynamodb-export for an export's folder": "dynamodb ddb",
    }
)
"""Hints by the name that other tools use for a format."""
MODE_HINTS = _by_word(
    {
        "that is put, which replaces the whole item": "upsert overwrite replace write load",
        "that is update, which leaves the item's other attributes": "merge patch",
        "that is insert, which skips keys that the table has": "append create add new",
        "that is delete": "remove purge",
        "use ddbload plan, or --dry-run": "plan check validate dry-run dryrun",
    }
)
"""Hints by the name that other tools use for a mode."""


def option_hint(
    option: str, own: Mapping[str, Collection[str]], command: str, arguments: Collection[str]
) -> str | None:
    """Return a message for an option that a command does not have; None if there is no hint.

    Args:
        option: Option as typed.
        own: Options of each command, by the command's name.
        command: Command as typed.
        arguments: Names of the command's arguments.
    """
    hint = _OPTIONS.get(option)
    if hint is None:
        others = [f"ddbload {name}" for name, options in own.items() if option in options]
        if not others or not option.startswith("--"):
            return None
        return f"no such option {option}; it is an option of {', '.join(others)}"
    for start, argument in _ARGUMENT_HINTS.items():
        if hint.startswith(start):
            return f"no such option {option}; {hint}" if argument in arguments else None
    named = hint.rpartition("--")[2].partition(" ")[0]
    if "--" not in hint or f"--{named}" in own[command]:
        return f"no such option {option}; {hint}"
    others = [f"ddbload {name}" for name, options in own.items() if f"--{named}" in options]
    if not others or not {"table", "out"} & set(arguments):
        return None
    return f"no such option {option}; {hint}, an option of {', '.join(others)}"


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/+")
_S3_HOST = re.compile(r"(?:(.+)\.)?s3[.-](?:[a-z0-9.-]+\.)?amazonaws\.com(?:\.cn)?")
"""Host of S3, with the bucket in virtual-hosted style."""
_CONSOLE_HOST = re.compile(r"(?:[a-z0-9-]+\.)?console\.(?:aws\.amazon\.com|amazonaws\.cn)")
_S3_ARN = re.compile(r"arn:aws[a-z-]*:s3:::([^/]+)(?:/(.*))?")
_TABLE_ARN = re.compile(r"arn:aws[a-z-]*:dynamodb:([a-z0-9-]*):\d*:table/([^/]+).*")


def refuse_foreign_source(source: str) -> None:
    """Raise `InvalidUsage` for a URL, an ARN or a misspelt s3:// URI, unless it is a local path."""
    if source.startswith("s3://") or os.path.lexists(source):
        return
    if source.startswith("arn:"):
        raise InvalidUsage(f"SOURCE {source} is an ARN: {_of_arn(source)}")
    found = _SCHEME.match(source)
    if found is None or len(found[1]) == 1:
        # A single letter is a Windows drive, not a scheme.
        return
    scheme, rest = found[1].lower(), source[found.end() :]
    if scheme in ("s3", "s3a", "s3n"):
        raise InvalidUsage(f"SOURCE {source}: write s3://{rest}")
    if scheme == "file":
        _, _, path = source.partition(":")
        path = unquote(path.removeprefix("//").removeprefix("localhost"))
        raise InvalidUsage(f"SOURCE {source} is a URL: write the path alone, {shlex.quote(path)}")
    if scheme in ("http", "https"):
        # The query of a presigned URL is a credential.
        raise InvalidUsage(f"SOURCE {source.partition('?')[0]} is a URL: {_of_url(source)}")
    raise InvalidUsage(
        f"SOURCE {source}: ddbload reads local files, s3://bucket/key and standard input ('-'), and"
        f" not {scheme}://; copy the data to S3 or to this machine first"
    )


def _of_arn(arn: str) -> str:
    bucket = _S3_ARN.fullmatch(arn)
    if bucket is not None:
        return f"write s3://{bucket[1]}/{bucket[2] or ''}"
    table = _TABLE_ARN.fullmatch(arn)
    if table is not None:
        return f"that of a table, which comes second, by its name: {table[2]}"
    if ":accesspoint" in arn:
        return "an access point is named by its alias, as in s3://ALIAS/key"
    return "write s3://bucket/key"


def _of_url(url: str) -> str:
    """Return the s3:// URI that an S3 URL stands for, or a hint on reading another URL."""
    parts = urlsplit(url)
    host, path = (parts.hostname or "").lower(), unquote(parts.path.lstrip("/"))
    found = _S3_HOST.fullmatch(host)
    if found is not None:
        place = f"{found[1]}/{path}" if found[1] else path
        return f"write {shlex.quote(f's3://{place}')}"
    if _CONSOLE_HOST.fullmatch(host) is not None and path.startswith("s3/"):
        key = parse_qs(parts.query).get("prefix", [""])[0]
        bucket = path.rpartition("/")[2]
        return f"write {shlex.quote(f's3://{bucket}/{key}')}"
    return "ddbload does not fetch it: curl -fsSL URL | ddbload import - TABLE"
