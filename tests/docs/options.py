"""Write docs/options.md from the declarations of the options.

`.venv/bin/python -m tests.docs.options > docs/options.md`
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ddbload.contracts.messages import Option
from ddbload.contracts.payload import named_options

HEAD = """# Options

For looking up the name of an option. Job files, upload rules in cdk.json, the payload of an
execution and Python take each under its name; a payload and an upload rule also within the part
that is named. This page is generated from the declarations (`tests/docs/options.py`).

| name | command line | part of a payload | meaning |
|---|---|---|---|
"""


def lines() -> Iterator[str]:
    for name, (path, each) in sorted(named_options().items()):
        place = f"{path}.{each.field}".lstrip(".")
        yield f"| `{name}` | `{flag(each)}` | `{place}` | {meaning(each)} |"


def flag(each: Option) -> str:
    word = "" if each.metavar is None else f" {each.metavar}"
    return f"{each.flag.replace('/', ' / ')}{word}".replace("|", "\\|")


def meaning(each: Option) -> str:
    text = each.help.replace("|", "\\|").replace("<", "\\<")
    return f"{text} Default: {each.default_text}." if each.default_text else text


def page() -> str:
    return HEAD + "\n".join(lines()) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
