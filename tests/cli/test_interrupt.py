"""Ctrl-C ends a command even if another exception came of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from ddbload.cli import commands as module
from ddbload.cli import main
from ddbload.cli.terminal import raise_on_interrupt
from ddbload.reading.processes import interrupts_blocked

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)


@pytest.fixture(autouse=True)
def _as_it_was():
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    hook = sys.unraisablehook
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


def import_something():
    """Raise ImportError in place of KeyboardInterrupt, like a half imported C module."""
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        raise ImportError("a module in pieces") from None


def test_run_raises_keyboard_interrupt_when_it_became_another_exception(monkeypatch):
    monkeypatch.setattr(module.commands, "main", lambda *_, **__: import_something())
    with pytest.raises(KeyboardInterrupt):
        module.run([], raise_on_interrupt())


def test_ignored_signals_stay_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupted = raise_on_interrupt()
    signal.raise_signal(signal.SIGINT)
    assert not interrupted()


def start_processes(number, started):
    """Receive a signal while processes are started."""
    with interrupts_blocked():
        signal.raise_signal(number)
        started.append(True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts_wait_until_processes_are_started(number):
    raise_on_interrupt()
    started = []
    with pytest.raises(KeyboardInterrupt):
        start_processes(number, started)
    assert started


@pytest.mark.parametrize(("end", "code"), [("return 1", 1), ("raise KeyboardInterrupt", 130)])
def test_no_alarm_is_left_when_a_command_has_ended(tmp_path, end, code):
    """It would kill the interpreter, which takes its handlers away before it ends."""
    (tmp_path / "interrupting.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    program = (
        "import ddbload.cli.commands as commands, signal, sys, time\n"
        "import ddbload.cli.main as main\n"
        "def run(arguments, interrupted):\n"
        "    import interrupting\n"
        f"    {end}\n"
        "commands.run = run\n"
        "told = main._print_interrupted\n"
        "main._print_interrupted = lambda: (time.sleep(0.3), told())\n"
        "try:\n"
        "    main.main()\n"
        "finally:\n"
        "    print(signal.getitimer(signal.ITIMER_REAL)[0])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, "0.0\n"), ended.stderr


def test_interrupt_is_raised_after_a_module_has_loaded(tmp_path, monkeypatch):
    """In the middle, Python may print the exception and drop it."""
    source = "import signal\nsignal.raise_signal(signal.SIGINT)\nloaded = True\n"
    (tmp_path / "interrupting.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    interrupted = raise_on_interrupt()
    import interrupting

    assert interrupting.loaded
    assert interrupted()
    with pytest.raises(KeyboardInterrupt):
        signal.pause()


def test_alarm_after_a_handled_interrupt_leaves_no_traceback(monkeypatch):
    quits = []

    def quit_on_interrupt() -> None:
        quits.append(1)
        if len(quits) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(main, "_quit_on_interrupt", quit_on_interrupt)
    monkeypatch.setattr("ddbload.cli.commands.run", lambda *_: 130)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, len(quits)) == (130, 2)
