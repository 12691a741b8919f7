"""Record docs/images/import.svg anew: `python -m release.record_picture`.

It runs `ddbload import` with a generated file, and `ddbload rejects`, on a pseudo-terminal and
against an emulation of AWS on this machine. The picture shows the import at about 60 % and at its
end, in the terminal's colours. Only the path of the home folder is changed. Record it on an idle
machine, because the picture shows the rate.
"""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

import boto3
from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from localaws import LocalAws

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "import.svg"
COLUMNS, LINES = 98, 24
ROWS = 60_000
IMPORT = ("import", "books.csv", "books", "--types", "year=N,price=N", "--run-id", "first")
REJECTS = ("rejects", "first")
MOMENT = 60
"""Percentage of the import at which it is shown."""
_PERCENT = re.compile(r"importing .* (\d+) %")
_THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        *[(72, 79, 88), (255, 123, 114), (126, 231, 135), (227, 179, 65)],
        *[(121, 192, 255), (210, 168, 255), (86, 212, 221), (177, 186, 196)],
    ],
    [
        *[(110, 118, 129), (255, 161, 152), (126, 231, 135), (227, 179, 65)],
        *[(165, 214, 255), (226, 197, 255), (179, 240, 255), (255, 255, 255)],
    ],
)
_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" \
role="img" aria-label="ddbload import at 60 % and at its end, and the rows that it rejected">
<!-- A recorded run, drawn by `python -m release.record_picture`. -->
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, SFMono-Regular, Menlo, Consolas, \
"DejaVu Sans Mono", monospace; line-height: {line_height}px; white-space: pre }}
.{unique_id}-title {{ font: 18px sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Screen:
    """Lines that a terminal would show, each with its ANSI colours.

    It knows the controls that rich sends: carriage return, line feed, cursor up, erase line, and
    SGR.
    """

    def __init__(self) -> None:
        self._lines: list[list[tuple[str, str]]] = [[]]
        self._row = self._column = 0
        self._style = ""
        self._rest = ""

    def feed(self, text: str) -> None:
        """Show more of what a command prints."""
        text = self._rest + text
        cut = text.rfind("\x1b")
        complete = cut < 0 or re.match(r"\x1b(\[[0-9;?]*[@-~]|[^\[])", text[cut:])
        self._rest = "" if complete else text[cut:]
        for sign in re.findall(r"\x1b\[[0-9;?]*[@-~]|[^\x1b]", text if complete else text[:cut]):
            self._show(sign)

    def _show(self, sign: str) -> None:
        if sign == "\n":
            self._row += 1
        elif sign == "\r":
            self._column = 0
        elif len(sign) == 1:
            line = self._line()
            line += [("", " ")] * (self._column + 1 - len(line))
            line[self._column] = (self._style, sign)
            self._column += 1
        elif sign.endswith("m"):
            self._style = "" if sign in ("\x1b[0m", "\x1b[m") else self._style + sign
        elif sign.endswith("A"):
            self._row = max(0, self._row - int(sign[2:-1] or 1))
        elif sign == "\x1b[2K":
            self._line().clear()
        elif sign not in ("\x1b[?25l", "\x1b[?25h"):
            raise ValueError(f"a control that is not drawn: {sign!r}")

    def _line(self) -> list[tuple[str, str]]:
        self._lines += [[] for _ in range(self._row + 1 - len(self._lines))]
        return self._lines[self._row]

    def plain(self) -> str:
        """Return the text without colours."""
        return "\n".join("".join(sign for _, sign in line) for line in self._lines)

    def lines(self) -> list[Text]:
        """Return the lines down to the last that is not empty."""
        decode = AnsiDecoder().decode_line
        shown = [
            decode("".join(f"\x1b[0m{style}{sign}" for style, sign in line)) for line in self._lines
        ]
        while shown and not shown[-1].plain.strip():
            shown.pop()
        return shown


def run(arguments: tuple[str, ...], folder: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Run ddbload on a pseudo-terminal, and yield what it prints. Exit status 3 is expected."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    program = str(Path(sys.executable).with_name("ddbload"))
    process = subprocess.Popen(  # noqa: S603 - ddbload itself
        [program, *arguments], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    # A read may end within a character.
    decode = codecs.getincrementaldecoder("utf-8")().decode
    try:
        while piece := os.read(ours, 65536):
            yield decode(piece)
    except OSError:
        # Linux's way to say that the other end is closed.
        pass
    finally:
        os.close(ours)
    if process.wait() not in (0, 3):
        raise SystemExit(f"ddbload {arguments[0]} ended with {process.returncode}")


def write_books(path: Path) -> None:
    """Write a file with a few rows that cannot be loaded."""
    faulty = {
        ROWS // 8: ',"Kim, vol. 3",1900,5.50',
        ROWS // 3: '9780326209000,"Kim, vol. 0",unknown,5.50',
        ROWS // 2: ',"Kim, vol. 8",1980,5.50',
        ROWS - 9: '9780326221200,"Kim, vol. 5",1980,5,50',
    }
    with path.open("w", encoding="utf-8") as file:
        file.write("isbn,title,year,price\n")
        for n in range(ROWS):
            row = f'{9780326000000 + n},"Kim, vol. {n % 9}",{1900 + n % 120},5.50'
            file.write(faulty.get(n, row) + "\n")


def record(aws: LocalAws, work: Path) -> tuple[list[Text], list[Text], list[Text]]:
    """Run both commands; return what is shown at the moment, at the end, and of the rejects."""
    home, folder = work / "home", work / "folder"
    home.mkdir()
    folder.mkdir()
    write_books(folder / "books.csv")
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LC_ALL": "C.UTF-8",
        "AWS_EC2_METADATA_DISABLED": "true",
        **aws.environment,
    }
    screen, moment = Screen(), None
    for text in run(IMPORT, folder, env):
        screen.feed(text.replace(str(home), "/home/me"))
        found = _PERCENT.search(screen.plain())
        if moment is None and found and int(found[1]) >= MOMENT:
            moment = screen.lines()
    if moment is None:
        raise SystemExit(f"the import showed nothing between {MOMENT} % and its end: try again")
    rejects = Screen()
    for text in run(REJECTS, folder, env):
        rejects.feed(text)
    return moment, screen.lines(), rejects.lines()


def draw(moment: list[Text], end: list[Text], rejects: list[Text]) -> str:
    """Draw the picture as SVG."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )

    def show(*lines: Text) -> None:
        for line in lines:
            console.print(line, no_wrap=True, overflow="crop", crop=True, highlight=False)

    def prompt(arguments: tuple[str, ...]) -> Text:
        return Text.assemble(("$ ", "bright_black"), ("ddbload " + " ".join(arguments), "bold"))

    # The first line, with the run's id, stays on the screen; the bar gives way to the result.
    show(prompt(IMPORT), *moment, Text(""))
    show(Text("… and at its end, in place of the bar:", "bright_black"), Text(""))
    show(*end[1:], Text(""), prompt(REJECTS), *rejects)
    return console.export_svg(title="", theme=_THEME, code_format=_FORMAT, unique_id="import")


def main() -> None:
    """Record the run, and write the picture."""
    with tempfile.TemporaryDirectory() as work, LocalAws() as aws:
        boto3.client(
            "dynamodb",
            endpoint_url=aws.dynamodb_endpoint,
            region_name=aws.region,
            aws_access_key_id=aws.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=aws.environment["AWS_SECRET_ACCESS_KEY"],
        ).create_table(
            TableName="books",
            KeySchema=[{"AttributeName": "isbn", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "isbn", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        PICTURE.write_text(draw(*record(aws, Path(work))), "utf-8")


if __name__ == "__main__":
    main()
