"""Command line: start all servers, print their addresses, and wait for a signal."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from pathlib import Path

from localaws.processes import on_stdin_eof
from localaws.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    """Run the emulator until a signal ends it. Return 0, or 1 if it could not start."""
    options = _parser().parse_args(arguments)
    ended = threading.Event()
    # Handle SIGINT even if it is ignored now: a shell ignores it for a script's background jobs.
    handled = [signal.SIGINT, signal.SIGTERM]
    # SIGHUP stays ignored if the parent ignores it, as `nohup` does.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        handled.append(signal.SIGHUP)
    for number in handled:
        signal.signal(number, lambda *_: ended.set())
    if options.exit_on_stdin_eof:
        on_stdin_eof(ended.set)
    _configure_logging()
    work_folder = Path(tempfile.mkdtemp(prefix="localaws-"))
    try:
        return _run(_settings(options, work_folder), ended)
    finally:
        shutil.rmtree(work_folder, ignore_errors=True)


def _run(settings: Settings, ended: threading.Event) -> int:
    # moto reads the variable at import.
    os.environ["AWS_DEFAULT_REGION"] = settings.region
    from localaws.dynalite import DynaliteMissing  # noqa: PLC0415 - keeps --help fast
    from localaws.emulator import Emulator  # noqa: PLC0415
    from localaws.patches import WrongMoto  # noqa: PLC0415

    try:
        emulator = Emulator(settings)
    except (DynaliteMissing, WrongMoto, OSError) as error:
        print(f"localaws: {error}", file=sys.stderr)  # noqa: T201 - a command's message
        return 1
    try:
        print(emulator.announcement(), flush=True)  # noqa: T201 - a command's result
        ended.wait()
    finally:
        emulator.close()
    return 0


def _settings(options: argparse.Namespace, work_folder: Path) -> Settings:
    return Settings(
        work_folder=work_folder,
        port=options.port,
        region=options.region,
        concurrency=options.concurrency,
        retry_seconds=options.retry_seconds,
        state_retry_seconds=options.state_retry_seconds,
        log_folder=options.log_folder,
        record_calls=options.record_calls,
        enforce_iam=options.enforce_iam,
    )


def _parser() -> argparse.ArgumentParser:
    defaults = Settings(work_folder=Path())
    parser = argparse.ArgumentParser(
        prog="python -m localaws",
        description="Emulate AWS on 127.0.0.1. Prints the endpoints as one line of JSON when it is "
        "ready, and runs until SIGINT or SIGTERM. Keeps no data afterwards.",
    )
    add = parser.add_argument
    add(
        "--port",
        type=int,
        default=defaults.port,
        help="port of all services but DynamoDB; default: a free port",
    )
    add("--region", default=defaults.region, help="AWS region; default: %(default)s")
    add(
        "--concurrency",
        type=int,
        default=defaults.concurrency,
        help="maximum number of processes for each Lambda function; default: %(default)s",
    )
    add(
        "--retry-seconds",
        type=float,
        default=defaults.retry_seconds,
        help="seconds before the first retry of a failed asynchronous invocation, doubled for the "
        "second, and before a failed message of a queue comes again; default: %(default)s",
    )
    add(
        "--state-retry-seconds",
        type=float,
        default=defaults.state_retry_seconds,
        metavar="SECONDS",
        help="longest wait before a failed state is tried again; default: as long as its Retry "
        "says",
    )
    add("--log-folder", type=Path, help="keep the functions' logs in this folder")
    add(
        "--record-calls",
        type=Path,
        metavar="FILE",
        help="append each distinct call made by a role to FILE, as a JSON line",
    )
    add(
        "--enforce-iam",
        action="store_true",
        help="refuse calls that the role's policies do not allow",
    )
    add(
        "--exit-on-stdin-eof",
        action="store_true",
        help="end when standard input is closed, which happens when the parent process ends",
    )
    return parser


def _configure_logging() -> None:
    """Silence moto's warnings about templates, and its log of failing states."""
    warnings.filterwarnings("ignore")
    logging.basicConfig(level=logging.WARNING, format="localaws: %(name)s: %(message)s")
    for name in ("moto.cloudformation", "moto.stepfunctions", "werkzeug", "botocore", "boto3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Keep moto's errors, but not its warnings about unsupported template properties.
    logging.getLogger("moto").setLevel(logging.ERROR)
