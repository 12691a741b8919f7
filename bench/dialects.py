"""Compare how often ddbload and other tools guess a file's delimiter.

    python -m bench.dialects --tools PYTHON [--part seen|held-out] [--list]

Files are those of `tests.sniffing`. PYTHON is a Python of a throw-away environment with duckdb,
clevercsv and pandas. A file of one column is guessed right with any delimiter that splits no row
of it. ddbload may also refuse a file (`BadHeader`, `AmbiguousDelimiter`): counted apart, because
nothing is loaded wrongly then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from ddbload.contracts.options import Options
from ddbload.contracts.source import AUTO, Source
from ddbload.errors import DdbloadError
from ddbload.pipeline.preflight.detect_format import detect_format
from ddbload.reading.header import read_header
from ddbload.reading.open_sources import open_decoded
from ddbload.source.local_file import open_local
from tests.sniffing.corpus import SAMPLES, Sample
from tests.sniffing.polluted import polluted

RIVALS = Path(__file__).parent / "rivals" / "sniffers.py"
OURS = "ddbload"
Guess = str | bool | None


def guess(path: Path, keys: Collection[str] = ()) -> tuple[Guess, DdbloadError | None]:
    """Guess a file's delimiter; also return the error that refuses the file.

    `keys`: columns that the header should have.
    """
    source = Source(format=AUTO, delimiter=AUTO, encoding=AUTO, path=str(path))
    with closing(open_local(str(path))) as raw:
        try:
            found = detect_format(raw, source, keys)
        except DdbloadError as error:
            return False, error
        delimiter = found.source.delimiter if found.source.kind.has_columns else False
        try:
            file = open_decoded(raw, found.source)
            read_header(file, found.source, Options().row_limit, doubt=found.doubt)
        except DdbloadError as error:
            return delimiter, error
    return delimiter, None


def is_right(sample: Sample, found: Guess) -> bool:
    """Tell whether a guess reads the file as a person does."""
    if sample.delimiter is None:
        return found is None or (isinstance(found, str) and found not in sample.text)
    return found == sample.delimiter


def write_files(samples: list[Sample], folder: Path) -> list[Path]:
    """Write the files, each to a folder of its own, since the name is evidence."""
    paths = []
    for number, sample in enumerate(samples):
        place = folder / str(number)
        place.mkdir()
        path = place / sample.file_name
        path.write_bytes(sample.data)
        paths.append(path)
    return paths


def compare(samples: list[Sample], tools: str | None, *, is_listed: bool) -> dict[str, list[int]]:
    """Count right guesses, wrong ones, and refusals, by tool."""
    with tempfile.TemporaryDirectory() as name:
        paths = write_files(samples, Path(name))
        ours = [guess(path) for path in paths]
        others: list[dict[str, Guess]] = [{} for _ in paths]
        if tools is not None:
            done = subprocess.run(
                [tools, str(RIVALS)],
                input=json.dumps(list(map(str, paths))),
                capture_output=True,
                text=True,
                check=True,
            )
            others = json.loads(done.stdout)
    counts: dict[str, list[int]] = {}
    for sample, (own, error), other in zip(samples, ours, others, strict=True):
        for tool, found in {OURS: own, **other}.items():
            right, wrong, refused = counts.setdefault(tool, [0, 0, 0])
            is_refused = tool == OURS and error is not None
            good = is_right(sample, found)
            counts[tool] = [
                right + good,
                wrong + (not good and not is_refused),
                refused + is_refused,
            ]
            if is_listed and tool == OURS and (not good or is_refused):
                name = None if error is None else error.name
                print(f"  {sample.name}: {sample.delimiter!r}, guessed {found!r}, {name}")
    return counts


def main() -> None:
    """Print a table for each set of files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", help="Python that has duckdb, clevercsv and pandas")
    parser.add_argument("--part", choices=["seen", "held-out"])
    parser.add_argument("--list", action="store_true", help="print files that are not guessed")
    options = parser.parse_args()
    seen = [each for each in SAMPLES if not each.held_out]
    held_out = [each for each in SAMPLES if each.held_out]
    sets = {"seen": seen, "polluted": list(polluted()), "held-out": held_out}
    if options.part == "seen":
        del sets["held-out"]
    if options.part == "held-out":
        sets = {"held-out": held_out}
    for name, samples in sets.items():
        counts = compare(samples, options.tools, is_listed=options.list)
        for tool, (right, wrong, refused) in counts.items():
            tail = f", {wrong} wrong and not refused, {refused} refused" if tool == OURS else ""
            print(f"{name}: {tool}: {right} of {len(samples)} right{tail}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
