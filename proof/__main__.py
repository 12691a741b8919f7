"""`make test-aws BUDGET=2` and `make test-aws-clean`: run the proof on an account, or clean up.

python -m proof --budget 2 [--parts csv,insert] [--yes] [--emulation]
python -m proof --clean [--id 1a2b3c4d] [--yes]
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ddbload import __version__
from localaws import LocalAws
from proof.account import Account, ProofError, Record
from proof.budget import Budget, BudgetTooSmall, choose_scale
from proof.cleanup import CleanUp
from proof.parts import PARTS, Part, chosen
from proof.results import FAILED, LEFT_OUT, Figure, Results
from proof.session import Session

FAULTS = (ProofError, ClientError, BotoCoreError, OSError, ValueError, LookupError, TypeError)
"""Errors that end a part; the next one runs, and everything is removed."""
EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def main() -> int:
    """Run the command. Return 0 if every part passed and nothing is left, else 1, 2 or 130."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Also where a shell ignores SIGINT for what runs in the background.
        signal.signal(number, signal.default_int_handler)
    with ExitStack() as stack:
        try:
            parts = chosen(options.parts)
            scale = choose_scale(lambda each: _price(parts, each), options.budget)
            if options.emulation:
                words = ("--enforce-iam", "--retry-seconds", "0.2", "--state-retry-seconds", "0.5")
                _use_environment(stack.enter_context(LocalAws(*words)).environment)
            account = Account()
            if options.clean:
                return _clean_all(account, options)
            scale = 0.0 if account.emulated else scale
            _ask(_offer(account, parts, scale, options.budget), options)
        except (ProofError, BudgetTooSmall, ClientError, BotoCoreError) as error:
            say(str(error))
            return EXIT_USAGE
        except KeyboardInterrupt:
            say("interrupted; nothing was made")
            return EXIT_INTERRUPTED
        return _prove(account, parts, scale, options)


def _prove(account: Account, parts: Sequence[Part], scale: float, options: Any) -> int:
    """Run the parts, remove everything however they end, and write the results."""
    record = Record.begin(options.folder / "aws-proof", secrets.token_hex(4), account)
    facts = {
        "proof": record.proof,
        "ddbload": __version__,
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "on": "the emulation (localaws)" if account.emulated else "AWS",
        "region": account.region,
        "scale": scale,
        "budget": options.budget,
    }
    results, budget = Results(facts), Budget(options.budget)
    interrupted = False
    with tempfile.TemporaryDirectory(prefix="ddbload-proof-") as folder:
        session = Session(account, record, Path(folder), results, budget)
        try:
            for part in parts:
                if not _run_part(session, part, scale):
                    break
        except KeyboardInterrupt:
            interrupted = True
            say("interrupted: removing what was made; press Ctrl-C again to leave it there")
    left = _remove(account, CleanUp(account, [record], record.proof))
    more = {"spent_estimate": round(budget.spent, 4), "left": left, "interrupted": interrupted}
    path = results.write(options.folder, more)
    print(results.page(), flush=True)
    say(f"about ${budget.spent:.2f} of ${budget.dollars:.2f} spent; written: {path}")
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if left or results.failed else 0


def _run_part(session: Session, part: Part, scale: float) -> bool:
    """Run a part if the budget allows it; return false if no other can run after it."""
    size, results = part.size(scale), session.results
    work = part.work(size)
    session.part, session.size, session.work, session.spent = part.name, size, work, 0.0

    def note(status: str, why: str) -> None:
        results.figures.append(Figure(part.name, part.text.format(f"{size:,}"), status, why))
        say(f"{part.name}: {status}: {why}")

    if part.not_emulated is not None and session.account.emulated:
        note(LEFT_OUT, part.not_emulated)
        return True
    if not session.budget.allows(work):
        note(LEFT_OUT, f"it may cost ${work.dollars:.2f}, and ${session.budget.left:.2f} is left")
        return True
    say(f"{part.name}: {part.text.format(f'{size:,}')}")
    try:
        part.measure(session)
    except FAULTS as error:
        note(FAILED, f"{type(error).__name__}: {error}".removeprefix("ProofError: "))
    finally:
        # What a part that failed has spent is not known: all that it might have.
        failed = results.figures and results.figures[-1].status == FAILED
        session.budget.spent += work.dollars if failed else session.spent
    return session.deployed or part.name == "destroy"


def _remove(account: Account, clean: CleanUp) -> list[str]:
    """Remove what is found; return and say what is left."""
    try:
        left = [f"{each.kind} {each.name}" for each in clean.remove(say)]
    except KeyboardInterrupt:
        left = [f"{each.kind} {each.name}" for each in clean.pending]
        say("interrupted while removing; this may be left:")
    except (ClientError, BotoCoreError) as error:
        left = [f"{each.kind} {each.name}" for each in clean.pending]
        say(f"AWS refused to list what is left: {error}; this may be left:")
    for each in left:
        say(f"  {each}")
    for found, why in clean.refused.items():
        say(f"  {found.name}: {why}")
    for each in clean.unclaimed:
        say(f"not removed, since it has no tag ddbload-proof: {each}")
    if left:
        say(f"to remove it: make test-aws-clean, in {account.place}")
    else:
        say(f"nothing is left in {account.place}")
    return left


def _clean_all(account: Account, options: Any) -> int:
    records = Record.all(options.folder / "aws-proof", account)
    clean = CleanUp(account, records, options.id)
    found = clean.find()
    if not found:
        say(f"no proof has left anything in {account.place}")
        return EXIT_FAILED if _remove(account, clean) else 0
    lines = [f"  {each.kind} {each.name}" for each in found]
    offer = [f"proofs have left {len(found)} things in {account.place}:", *lines]
    _ask([*offer, "a proof that still runs would lose them, too"], options)
    return EXIT_FAILED if _remove(account, clean) else 0


def _price(parts: Sequence[Part], scale: float) -> float:
    return sum(part.dollars(scale) for part in parts)


def _offer(account: Account, parts: Sequence[Part], scale: float, budget: float) -> list[str]:
    """Return lines that name each part with the most that it may cost, and their sum."""
    lines = [
        f"  ${part.dollars(scale):7.4f}  {part.name:12} {part.text.format(f'{part.size(scale):,}')}"
        for part in parts
    ]
    total = f"  ${_price(parts, scale):7.4f}  at most, of BUDGET={budget:g}"
    where = " (emulated: nothing is billed)" if account.emulated else ""
    return [f"the proof makes a stack in {account.place}{where}, and removes it:", *lines, total]


def _ask(lines: Sequence[str], options: Any) -> None:
    """Show what will be done, and go on if the user agrees. Raises `ProofError`."""
    say("\n".join(lines))
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise ProofError("there is no terminal to ask on: give --yes (make ... ARGS=--yes)")
    if input("Go on? Type yes: ").strip().lower() != "yes":
        raise ProofError("declined: nothing was done")


def _use_environment(environment: dict[str, str]) -> None:
    """Point this process at the emulation, and drop the user's AWS settings."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(environment, AWS_CONFIG_FILE=os.devnull)
    os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull


def say(text: str) -> None:
    """Print on stderr, at once."""
    print(f"proof: {text}", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m proof",
        description="Prove ddbload on a real AWS account, for a bounded price, and remove"
        " everything that was made. Credentials and region come from the environment.",
    )
    add = parser.add_argument
    add("--budget", type=_dollars, default=2.0, metavar="DOLLARS", help="default: %(default)s")
    add("--parts", type=_parts, default=[], metavar="NAME,...", help="default: all")
    add("--emulation", action="store_true", help="run at the smallest scale on localaws instead")
    add("--clean", action="store_true", help="remove what proofs have left, and run none")
    add("--id", metavar="ID", help="with --clean: of this proof only")
    add("--yes", action="store_true", help="do not ask")
    add("--folder", type=Path, default=Path("build"), help="for results; default: %(default)s")
    return parser.parse_args()


def _dollars(text: str) -> float:
    value = float(text)
    if not 0 < value < 1000:
        raise argparse.ArgumentTypeError(f"{text} is not an amount of dollars below 1000")
    return value


def _parts(text: str) -> list[str]:
    known = [part.name for part in PARTS]
    names = [each.strip() for each in text.split(",") if each.strip()]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
