"""Start the emulator for a shell: `eval "$(python -m localaws --export)"`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from localaws.processes import end_process

PID = "LOCALAWS_PID"
"""Variable of the shell with the emulator's process number."""
_ROOT = Path(__file__).resolve().parent.parent


def export(arguments: Sequence[str]) -> int:
    """Start the emulator in the background, and print lines for the shell to evaluate.

    The parent of this process is the shell: a command substitution runs its only command in its
    place. The emulator ends with it.
    """
    if _is_running(os.environ.get(PID, "")):
        _tell(f"runs already, as process {os.environ[PID]}")
        return 0
    path = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    given = [each for each in arguments if each != "--export"]
    process = subprocess.Popen(  # noqa: S603 - this package
        [sys.executable, "-m", "localaws", "--exit-with-process", str(os.getppid()), *given],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # Ctrl-C in the shell is for the commands there.
        start_new_session=True,
    )
    line = process.stdout.readline() if process.stdout else b""
    if not line:
        end_process(process)
        # The shell sees the failure as the status of `eval`.
        print("false")  # noqa: T201 - a command's result
        return 1
    variables = {**json.loads(line)["environment"], PID: str(process.pid)}
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")  # noqa: T201 - a command's result
    _tell(f"runs until this shell ends, or you say: kill ${PID}")
    return 0


def _is_running(pid: str) -> bool:
    with suppress(OSError):
        if pid.isdigit():
            os.kill(int(pid), 0)
            return True
    return False


def _tell(text: str) -> None:
    print(f"localaws: {text}", file=sys.stderr)  # noqa: T201 - a command's message
