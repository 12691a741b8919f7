"""The command line: starts everything, says where it is, and waits to be ended."""

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
    """0 when it was asked to end; 1 when it could not start."""
    options = _parser().parse_args(arguments)
    ended = threading.Event()
    # A server is ended by these, also where the shell ignores SIGINT for what it starts in the
    # background of a script.
    heeded = [signal.SIGINT, signal.SIGTERM]
    # What whoever started us ignores, as nohup does, stays ignored.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        heeded.append(signal.SIGHUP)
    for number in heeded:
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
    # moto reads this when it is imported.
    os.environ["AWS_DEFAULT_REGION"] = settings.region
    from localaws.dynalite import DynaliteMissing  # noqa: PLC0415 - a quick --help
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
        log_folder=options.log_folder,
        record_calls=options.record_calls,
        enforce_iam=options.enforce_iam,
    )


def _parser() -> argparse.ArgumentParser:
    defaults = Settings(work_folder=Path())
    parser = argparse.ArgumentParser(
        prog="python -m localaws",
        description="AWS on this machine, at 127.0.0.1 only. Prints one line of JSON when it is "
        "ready, and runs until SIGINT or SIGTERM. Nothing is kept.",
    )
    add = parser.add_argument
    add("--port", type=int, default=defaults.port, help="default: a free one")
    add("--region", default=defaults.region, help="default: %(default)s")
    add(
        "--concurrency",
        type=int,
        default=defaults.concurrency,
        help="processes of one function at once; default: %(default)s",
    )
    add(
        "--retry-seconds",
        type=float,
        default=defaults.retry_seconds,
        help="pause before a failed event is repeated; default: %(default)s",
    )
    add("--log-folder", type=Path, help="keep functions' logs here")
    add("--record-calls", type=Path, metavar="FILE", help="append roles' calls, as JSON lines")
    add("--enforce-iam", action="store_true", help="refuse what roles' policies do not allow")
    add(
        "--exit-on-stdin-eof",
        action="store_true",
        help="end when the other end of standard input is closed",
    )
    return parser


def _configure_logging() -> None:
    """moto warns of what templates hold and it leaves out, and logs every failing state."""
    warnings.filterwarnings("ignore")
    logging.basicConfig(level=logging.WARNING, format="localaws: %(name)s: %(message)s")
    for name in ("moto.cloudformation", "moto.stepfunctions", "werkzeug", "botocore", "boto3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Not what it does not know of templates, but what breaks in it.
    logging.getLogger("moto").setLevel(logging.ERROR)
