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
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from ddbload import __version__
from localaws import LocalAws
from proof.account import Account, ProofError, Record, require
from proof.budget import Budget, BudgetTooSmall, choose_scale
from proof.cleanup import CleanUp
from proof.parts import PARTS, Part, chosen, price
from proof.results import FAILED, LEFT_OUT, Figure, Results
from proof.session import Session

AWS_FAULTS = (ClientError, BotoCoreError)
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
            scale = choose_scale(lambda each: price(parts, each), options.budget)
            if options.emulation:
                words = ("--enforce-iam", "--retry-seconds", "0.2", "--state-retry-seconds", "0.5")
                _use_environment(stack.enter_context(LocalAws(*words)).environment)
            account = Account()
            if options.clean:
                return _clean_all(account, options)
            scale = 0.0 if account.emulated else scale
            _ask(_offer(account, parts, scale, options.budget), yes=options.yes)
        except (ProofError, BudgetTooSmall, *AWS_FAULTS) as error:
            say(str(error))
            return EXIT_USAGE
        except KeyboardInterrupt:
            say("interrupted; nothing was made")
            return EXIT_INTERRUPTED
        return _prove(account, parts, scale, options)


def _prove(
    account: Account, parts: Sequence[Part], scale: float, options: argparse.Namespace
) -> int:
    """Run the parts, remove everything however they end, and write the results."""
    proof, interrupted = secrets.token_hex(4), False
    record = Record(options.folder / "aws-proof" / f"{proof}.txt")
    facts = {
        "proof": proof,
        "ddbload": __version__,
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "on": "the emulation (localaws)" if account.emulated else "AWS",
        "region": account.region,
        "scale": scale,
        "budget": options.budget,
        "seconds": {},
    }
    results, budget = Results(facts), Budget(options.budget)
    with tempfile.TemporaryDirectory(prefix="ddbload-proof-") as folder:
        session = Session(account, record, Path(folder), results, budget)
        try:
            record.note(account.place)
            for part in parts:
                if not _run_part(session, part, scale):
                    break
        except KeyboardInterrupt:
            interrupted = True
            say("interrupted: removing what was made; another Ctrl-C leaves it there")
    left = _remove(account, CleanUp(account, [record], proof))
    more = {"spent_estimate": round(budget.spent, 4), "left": left, "interrupted": interrupted}
    path = results.write(options.folder, more)
    print(results.page(), flush=True)
    say(f"about ${budget.spent:.2f} of ${budget.dollars:.2f} spent; written: {path}")
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if left or results.failed else 0


def _run_part(session: Session, part: Part, scale: float) -> bool:
    """Run a part if the budget allows it; return false if no other can run after it."""
    budget, work, size = session.budget, part.work(scale), part.size(scale)
    session.part, session.expected, session.spent = part.name, part.figures, 0.0
    session.size, session.work = size, work
    text = part.text.format(f"{size:,}")

    def note(status: str, why: str) -> None:
        session.results.figures.append(Figure(part.name, text, status, why))
        say(f"{part.name}: {status}: {why}")

    if part.not_emulated is not None and session.account.emulated:
        note(LEFT_OUT, part.not_emulated)
    elif not budget.allows(work):
        note(LEFT_OUT, f"it may cost ${work.dollars:.2f}, and ${budget.left:.2f} is left")
    else:
        say(f"{part.name}: {text}")
        begun = time.monotonic()
        try:
            part.measure(session)
        except Exception as error:  # noqa: BLE001 - the next part runs, and everything is removed
            kind = "" if isinstance(error, ProofError) else f"{type(error).__name__}: "
            note(FAILED, f"{kind}{error}")
            # What it has spent is not known: all that it might have.
            session.spent = max(session.spent, work.dollars)
        finally:
            budget.spent += session.spent
            session.results.facts["seconds"][part.name] = round(time.monotonic() - begun, 1)
    return session.deployment is not None


def _remove(account: Account, clean: CleanUp) -> list[str]:
    """Remove what is found; return and say what is left."""
    try:
        clean.remove(say)
    except KeyboardInterrupt:
        say("interrupted while removing")
    for each in clean.left:
        say(f"left: {each}")
    for found in clean.unclaimed:
        say(f"not removed, since it has no tag ddbload-proof: {found}")
    command = f"make test-aws-clean removes it, in {account.place}"
    say(command if clean.left else f"nothing is left in {account.place}")
    return clean.left


def _clean_all(account: Account, options: argparse.Namespace) -> int:
    records = Record.all(options.folder / "aws-proof", account)
    clean = CleanUp(account, records, options.id)
    found = clean.find()
    if found:
        lines = [f"proofs have left this in {account.place}:", *(f"  {each}" for each in found)]
        _ask([*lines, "a proof that still runs would lose it, too"], yes=options.yes)
    return EXIT_FAILED if _remove(account, clean) else 0


def _offer(account: Account, parts: Sequence[Part], scale: float, budget: float) -> list[str]:
    """Return lines that name each part with the most that it may cost, and their sum."""
    lines = [
        f"  ${part.work(scale).dollars:7.4f}  {part.name:12}"
        f" {part.text.format(f'{part.size(scale):,}')}"
        for part in parts
    ]
    total = f"  ${price(parts, scale):7.4f}  at most, of BUDGET={budget:g}"
    where = " (emulated: nothing is billed)" if account.emulated else ""
    return [f"the proof makes a stack in {account.place}{where}, and removes it:", *lines, total]


def _ask(lines: Sequence[str], *, yes: bool) -> None:
    """Show what will be done, and ask. Raises `ProofError` for a no, or without a terminal."""
    say("\n".join(lines))
    if not yes:
        advice = "there is no terminal to ask on: give --yes (make ... ARGS=--yes)"
        require(sys.stdin.isatty(), advice)
        answer = input("Go on? Type yes: ").strip().lower()
        require(answer == "yes", "declined: nothing was done")


def _use_environment(environment: dict[str, str]) -> None:
    """Point this process at the emulation, and drop the user's AWS settings."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    files = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    os.environ.update(environment, **dict.fromkeys(files, os.devnull))


def say(text: str) -> None:
    """Print on stderr, at once."""
    print(f"proof: {text}", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    about = "Prove ddbload on an AWS account, for a bounded price, and remove all that was made."
    more = "Credentials and region come from the environment. See docs/contributing/proof.md."
    parser = argparse.ArgumentParser(prog="python -m proof", description=about, epilog=more)
    add = parser.add_argument
    add("--budget", type=_dollars, default=2.0, metavar="DOLLARS", help="default: %(default)s")
    add("--parts", type=_names, default=[], metavar="NAME,...", help="default: all")
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


def _names(text: str) -> list[str]:
    names, known = text.split(","), [part.name for part in PARTS]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
