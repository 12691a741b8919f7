"""Run the lab's experiments, print what they found, and write a page of it.

    python -m lab [--experiment writers] [--size 10000] [--latency-ms 8] [--seed 1] [--page]

`make lab` runs all experiments at small sizes, and writes into the folder `build`, which git
ignores. `make lab-page` writes docs/contributing/lab.md, and refuses to while other processes are
busy. `--redraw` draws the charts of the recorded findings again.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from bench.clients import RIVALS_PYTHON, ROOT
from bench.compare import machine
from bench.rounds import InvalidRound
from lab.harness import CountsDiffer, Experiment, MachineBusy, Setup

NAMES: tuple[str, ...] = ("writers", "ladder", "sinks", "objects", "listing")
"""Experiments, in the order of the page."""
DOCS, BUILD = Path("docs/contributing"), Path("build")
PAGE, FOLDER = "lab.md", "lab"
"""Path of the page, and of the folder with findings and charts."""
_TEXTS = Path(__file__).parent / "experiments"


def experiments() -> list[Experiment]:
    """Return all experiments, in the order of the page."""
    return [import_module(f"lab.experiments.{name}").EXPERIMENT for name in NAMES]


def main() -> None:
    """Run the requested experiments.

    Exits with 1 if a way fails, if counts do not match, or if the machine must be idle and is not.
    """
    options = _options()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    keep_to_this_machine()
    if not RIVALS_PYTHON.exists():
        sys.exit(f"{RIVALS_PYTHON.relative_to(ROOT)} is missing: run make rivals")
    if options.redraw:
        for name in NAMES:
            draw(DOCS / FOLDER, name)
        write_page(DOCS)
        return
    for experiment in experiments():
        if options.experiment in (None, experiment.name):
            _run(experiment, options)


def _run(experiment: Experiment, options: argparse.Namespace) -> None:
    size = options.size or experiment.size
    latency_ms = experiment.latency_ms if options.latency_ms is None else options.latency_ms
    console = Console()
    console.print(f"\n{experiment.title}: {size:,} {experiment.unit}, {latency_ms:g} ms a request")
    console.print(f'Published as "{experiment.source}"')
    with tempfile.TemporaryDirectory(prefix="ddbload-lab-") as folder:
        setup = Setup(size, latency_ms / 1000, options.seed, Path(folder), _say, options.page)
        try:
            findings = experiment.run(setup)
        except (CountsDiffer, InvalidRound, MachineBusy) as refused:
            sys.exit(f"{experiment.name}: {refused}")
    for table in findings.tables:
        shown = RichTable(title=table.title, title_justify="left")
        for at, column in enumerate(table.columns):
            shown.add_column(column, justify="right" if at else "left")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for note in findings.notes:
        console.print(note)
    on = machine()
    run = {
        "experiment": experiment.name,
        "size": size,
        "latency_ms": latency_ms,
        "seed": options.seed,
        "machine": f"{on['python']}, {on['machine']}, {on['processor']}, {on['cores']} cores",
        "load": on["load_before"],
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "findings": asdict(findings),
    }
    docs = DOCS if options.page else BUILD
    record(docs / FOLDER, run)
    charts = draw(docs / FOLDER, experiment.name)
    print("\nWritten:", write_page(docs), *charts, sep="\n", flush=True)


def record(folder: Path, run: dict[str, Any]) -> None:
    """Write a run's findings as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(run, indent=1, ensure_ascii=False)
    (folder / f"{run['experiment']}.json").write_text(text + "\n", encoding="utf-8")


def draw(folder: Path, name: str) -> list[Path]:
    """Draw an experiment's charts with matplotlib, which `.venv-bench` contains."""
    for old in folder.glob(f"{name}-*.svg"):
        old.unlink()
    command = [str(RIVALS_PYTHON), "-m", "lab.draw", str(folder / f"{name}.json")]
    subprocess.run(command, cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    return sorted(folder.glob(f"{name}-*.svg"))


def write_page(docs: Path) -> Path:
    """Write the page: a section per experiment whose findings are in `docs`."""
    sections = [(_TEXTS / "page.md").read_text(encoding="utf-8")]
    for experiment in experiments():
        found = docs / FOLDER / f"{experiment.name}.json"
        if found.exists():
            sections.append(_section(experiment, json.loads(found.read_text(encoding="utf-8"))))
    (docs / PAGE).write_text("\n".join(sections), encoding="utf-8")
    return docs / PAGE


def _section(experiment: Experiment, run: dict[str, Any]) -> str:
    wrapped = (_TEXTS / f"{experiment.name}.md").read_text(encoding="utf-8")
    text = re.sub(r"\n(?!\n|- |---)\s*", " ", wrapped)
    measures, _, notes = text.partition("\n---")
    findings = run["findings"]
    settings = f"SIZE={run['size']} LATENCY_MS={run['latency_ms']:g} SEED={run['seed']}"
    load = f", load {run['load']:g}" if run.get("load", 0) > 0.5 else ""
    parts = [
        f"## {experiment.title}\n\nPublished as *{experiment.source}*. {measures.strip()}",
        (
            f"{run['date']}, {run['machine']}{load}; published with"
            f" {experiment.published_size:,} {experiment.unit}:"
            f" `make lab EXPERIMENT={run['experiment']} {settings}`."
        ),
        *(_table(table) for table in findings["tables"] if not table["detail"]),
        "\n".join(
            f"![{chart['title']}]({FOLDER}/{experiment.name}-{at}.svg)"
            for at, chart in enumerate(findings["charts"], 1)
        ),
        "\n".join([notes.strip(), f"- {' '.join(findings['notes'])}"]),
    ]
    return "\n\n".join(parts) + "\n"


def _table(table: dict[str, Any]) -> str:
    rows: Sequence[Sequence[str]] = [table["columns"], *table["rows"]]
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    lines.insert(1, "|" + "---|" + "---:|" * (len(table["columns"]) - 1))
    return "\n".join([f"{table['title']}:", "", *lines])


def keep_to_this_machine() -> None:
    """Remove AWS settings from the environment; exclude the lab's servers from proxies."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    others = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, [others, "127.0.0.1"]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab",
        description="Run published experiments beside ddbload, print what they found, and write"
        " build/lab.md.",
        epilog="With make: make lab EXPERIMENT=writers SIZE=10000 LATENCY_MS=8 SEED=1",
    )
    parser.add_argument("--experiment", choices=NAMES, help="default: all")
    parser.add_argument(
        "--size", type=_positive, help="books, rows, messages, objects or keys; default: small"
    )
    parser.add_argument("--latency-ms", type=_latency, help="default: the experiment's own")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--page", action="store_true", help=f"write {DOCS / PAGE} instead, on an idle machine only"
    )
    parser.add_argument(
        "--redraw", action="store_true", help=f"only draw the charts of {DOCS / PAGE} again"
    )
    options = parser.parse_args()
    if options.size is not None and options.experiment is None:
        parser.error("a size is for one experiment: add EXPERIMENT=NAME, or --experiment NAME")
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return int(text)


def _latency(text: str) -> float:
    if not text.replace(".", "", 1).isdecimal() or float(text) > 10_000:
        raise argparse.ArgumentTypeError(f"{text} is not a number of milliseconds from 0 to 10000")
    return float(text)


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def _end(number: int, _: object) -> None:
    """Exit, so that servers, ways and folders are cleaned up as after Ctrl-C."""
    sys.exit(128 + number)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
